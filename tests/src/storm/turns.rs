//! Which Service takes its turn when: as kube-runtime's queue does it, in an order that a seed
//! decides and not the memory of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccm_cloudstack::Runtime;
use ccm_core::ids::ServiceKey;
use cloudstack_ccm::controller::ports::Watch;
use cloudstack_ccm::controller::services::{ServiceController, Turns};
use cloudstack_ccm::ports::{Cloud, Cluster};
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _};
use jiff::Timestamp;

use super::clock::Clock;

/// See the module.
pub struct InOrder(pub Clock);

/// Who is to take a turn.
#[derive(Default)]
struct Waiting {
    now: BTreeSet<ServiceKey>,
    later: BTreeMap<ServiceKey, Timestamp>,
    busy: BTreeSet<ServiceKey>,
}

impl Waiting {
    /// Who may begin.
    fn begin(&mut self, now: Timestamp) -> Vec<ServiceKey> {
        let due = self.later.extract_if(.., |_, at| *at <= now);
        self.now.extend(due.map(|(key, _)| key));
        let ready: Vec<ServiceKey> = self.now.difference(&self.busy).cloned().collect();
        for key in &ready {
            self.now.remove(key);
            self.later.remove(key);
            self.busy.insert(key.clone());
        }
        ready
    }
}

impl Turns for InOrder {
    async fn take<C, K, R>(
        self,
        controller: Arc<ServiceController<C, K, R>>,
        requests: impl Stream<Item = ServiceKey>,
        mut turn_over: impl FnMut(),
    ) where
        C: Cloud,
        K: Cluster + Watch,
        R: Runtime,
    {
        let mut requests = std::pin::pin!(requests.fuse());
        let mut waiting = Waiting::default();
        let mut running = FuturesUnordered::new();
        while !requests.is_done() || !running.is_empty() {
            if !requests.is_done() {
                for key in waiting.begin(self.0.now()) {
                    let controller = Arc::clone(&controller);
                    running.push(async move {
                        let next = controller.take_turn(&key).await;
                        (key, next)
                    });
                }
            }
            let next = waiting.later.values().min().copied();
            tokio::select! {
                biased;
                Some((key, next)) = running.next() => {
                    waiting.busy.remove(&key);
                    waiting.later.extend(next.map(|at| (key, at)));
                    turn_over();
                }
                Some(key) = requests.next() => {
                    waiting.now.insert(key);
                }
                () = self.0.sleep_until(next.unwrap_or(Timestamp::MAX)), if next.is_some() => {}
                else => {}
            }
        }
    }
}
