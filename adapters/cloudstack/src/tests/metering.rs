//! What a client tells of its requests and jobs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccm_core::ids::LoadBalancerRuleId;
use ccm_core::plan::action::{Call, DeleteLoadBalancerRule};
use serde_json::json;

use super::support::{broken, client, job, of, ok, refused};
use crate::{Command, Ending, Meter, TransportErrorKind};

/// Keeps what it hears, without times that depend on the client's pace.
#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    waited: Mutex<Duration>,
}

impl Heard {
    fn say(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl Meter for Heard {
    fn waited(&self, wait: Duration) {
        *self.waited.lock().unwrap() += wait;
    }

    fn answered(&self, command: Command, ending: Ending, took: Duration) {
        self.say(format!("{} {} {took:?}", command.name(), ending.label()));
    }

    fn job_began(&self, command: Command) {
        self.say(format!("{} began", command.name()));
    }

    fn job_ended(&self, command: Command, took: Duration) {
        assert!(took >= Duration::from_millis(5), "{took:?}");
        self.say(format!("{} ended", command.name()));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_told_with_their_endings_and_jobs_from_start_to_end() {
    let mut calls = 0;
    let (client, _) = client(move |request| {
        calls += 1;
        match calls {
            1 => refused(429, "please retry after [900] ms."),
            2 => ok(&json!({"jobid": of(request, "customjobid")})),
            3 => broken(TransportErrorKind::Timeout, true),
            4 => refused(530, "the database is away"),
            5 => broken(TransportErrorKind::Connect, false),
            _ => job(1, json!({"jobresult": {"success": true}})),
        }
    });
    let heard = Arc::new(Heard::default());
    let client = client.metered(heard.clone());
    let rule = LoadBalancerRuleId::parse("r1").unwrap();
    let delete = Call::DeleteLoadBalancerRule(DeleteLoadBalancerRule { rule });
    client.call(&delete).await.unwrap();
    let lines = heard.lines.lock().unwrap().clone();
    assert_eq!(
        lines,
        [
            "deleteLoadBalancerRule throttled 5ms",
            "deleteLoadBalancerRule ok 5ms",
            "deleteLoadBalancerRule began",
            "queryAsyncJobResult timeout 5ms",
            "queryAsyncJobResult cloud 5ms",
            "queryAsyncJobResult no-answer 5ms",
            "queryAsyncJobResult ok 5ms",
            "deleteLoadBalancerRule ended",
        ]
    );
    assert!(*heard.waited.lock().unwrap() >= Duration::from_millis(900));
}
