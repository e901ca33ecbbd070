//! Following an async job: when to ask, and what the answers mean.

use std::time::Duration;

use jiff::Timestamp;

use crate::time::later;

/// Following one job of queryAsyncJobResult.
#[derive(Clone, Debug)]
pub struct JobWait {
    deadline: Timestamp,
    delay: Duration,
}

/// What the server said of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// `jobstatus` 0.
    Pending,
    /// `jobstatus` 1.
    Succeeded,
    /// `jobstatus` 2.
    Failed,
    /// The question itself failed, or the job is not known (yet, or any more).
    Unclear,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStep {
    /// The job is over.
    Succeeded,
    /// The job is over.
    Failed,
    /// Ask at this time.
    PollAt(Timestamp),
    /// Give up: the outcome is unknown.
    TimedOut,
}

impl JobWait {
    /// First poll delay: jobs without backend work are done at once.
    const FIRST: Duration = Duration::from_millis(200);
    /// Longest poll delay.
    const LONGEST: Duration = Duration::from_secs(5);

    /// Starts to follow a job that was accepted at `now`, for at most `patience`.
    pub fn new(now: Timestamp, patience: Duration) -> Self {
        Self { deadline: later(now, patience), delay: Self::FIRST }
    }

    /// When to ask for the first time.
    pub fn first_poll(&self, now: Timestamp) -> Timestamp {
        later(now, self.delay)
    }

    /// Takes what the server said at `now`. Delays grow by half, up to 5 s.
    pub fn handle_status(&mut self, now: Timestamp, status: JobStatus) -> JobStep {
        match status {
            JobStatus::Succeeded => JobStep::Succeeded,
            JobStatus::Failed => JobStep::Failed,
            JobStatus::Pending | JobStatus::Unclear if now >= self.deadline => JobStep::TimedOut,
            JobStatus::Pending | JobStatus::Unclear => {
                self.delay = (self.delay + self.delay / 2).min(Self::LONGEST);
                JobStep::PollAt(later(now, self.delay).min(self.deadline))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_five_seconds_and_end_at_the_deadline() {
        let start = Timestamp::UNIX_EPOCH;
        let mut wait = JobWait::new(start, Duration::from_mins(1));
        let mut now = wait.first_poll(start);
        let mut polls = 1;
        let end = loop {
            match wait.handle_status(now, JobStatus::Pending) {
                JobStep::PollAt(at) => {
                    assert!(at > now && later(now, Duration::from_secs(5)) >= at);
                    now = at;
                    polls += 1;
                }
                over @ (JobStep::Succeeded | JobStep::Failed | JobStep::TimedOut) => break over,
            }
        };
        assert_eq!(end, JobStep::TimedOut);
        assert_eq!(now, later(start, Duration::from_mins(1)));
        assert!(polls < 25, "{polls}");
    }

    #[test]
    fn an_answer_ends_the_wait_even_after_the_deadline() {
        let mut wait = JobWait::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Succeeded), JobStep::Succeeded);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Failed), JobStep::Failed);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Unclear), JobStep::TimedOut);
    }
}
