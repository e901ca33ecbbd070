//! Following an async job: when to ask, and what the answers mean.

use std::time::Duration;

use jiff::Timestamp;

use crate::time::later;

/// Following one job of queryAsyncJobResult.
#[derive(Clone, Debug)]
pub struct JobWait {
    started: Timestamp,
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
    /// Longest poll delay of a job that has not run for a minute.
    const LONGEST_AT_FIRST: Duration = Duration::from_secs(5);
    /// Longest poll delay.
    const LONGEST: Duration = Duration::from_secs(30);
    /// From a minute on, one part in so many of the time that a job has run may pass unseen.
    const PARTS: u32 = 12;

    /// Starts to follow a job that was accepted at `now`, for at most `patience`.
    pub fn new(now: Timestamp, patience: Duration) -> Self {
        Self { started: now, deadline: later(now, patience), delay: Self::FIRST }
    }

    /// When to ask for the first time.
    pub fn first_poll(&self, now: Timestamp) -> Timestamp {
        later(now, self.delay)
    }

    /// Takes what the server said at `now`. Delays grow by half, up to 5 s; those of a job that
    /// runs longer than a minute go on growing with the time it takes, up to 30 s.
    pub fn handle_status(&mut self, now: Timestamp, status: JobStatus) -> JobStep {
        match status {
            JobStatus::Succeeded => JobStep::Succeeded,
            JobStatus::Failed => JobStep::Failed,
            JobStatus::Pending | JobStatus::Unclear if now >= self.deadline => JobStep::TimedOut,
            JobStatus::Pending | JobStatus::Unclear => {
                self.delay = (self.delay + self.delay / 2).min(self.longest(now));
                JobStep::PollAt(later(now, self.delay).min(self.deadline))
            }
        }
    }

    fn longest(&self, now: Timestamp) -> Duration {
        let waited = Duration::try_from(now.duration_since(self.started)).unwrap_or_default();
        (waited / Self::PARTS).clamp(Self::LONGEST_AT_FIRST, Self::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows a job that never ends. Gives the seconds at which it is asked about.
    fn polls(patience: Duration) -> Vec<f64> {
        let start = Timestamp::UNIX_EPOCH;
        let mut wait = JobWait::new(start, patience);
        let mut polls = vec![wait.first_poll(start)];
        loop {
            let now = *polls.last().unwrap();
            match wait.handle_status(now, JobStatus::Pending) {
                JobStep::PollAt(at) => polls.push(at),
                over @ (JobStep::Succeeded | JobStep::Failed | JobStep::TimedOut) => {
                    assert_eq!((over, now), (JobStep::TimedOut, later(start, patience)));
                    return polls.iter().map(|at| at.duration_since(start).as_secs_f64()).collect();
                }
            }
        }
    }

    #[test]
    fn delays_grow_up_to_five_seconds_within_the_first_minute() {
        let polls = polls(Duration::from_mins(1));
        assert!(polls.windows(2).all(|two| two[1] > two[0] && two[1] - two[0] <= 5.0), "{polls:?}");
        assert!(polls.len() < 25, "{polls:?}");
    }

    #[test]
    fn a_job_that_takes_long_is_asked_about_ever_less_often() {
        let polls = polls(Duration::from_hours(1));
        for two in polls.windows(2) {
            let (waited, delay) = (two[0], two[1] - two[0]);
            assert!(delay <= (waited / 12.0).clamp(5.0, 30.0) + 1e-6, "{delay} s after {waited} s");
        }
        let within = |seconds| polls.iter().filter(|at| **at <= seconds).count();
        assert!(within(600.0) < 50, "{polls:?}");
        assert!(within(3600.0) - within(600.0) <= 101, "{polls:?}");
    }

    #[test]
    fn an_answer_ends_the_wait_even_after_the_deadline() {
        let mut wait = JobWait::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Succeeded), JobStep::Succeeded);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Failed), JobStep::Failed);
        assert_eq!(wait.handle_status(Timestamp::MAX, JobStatus::Unclear), JobStep::TimedOut);
    }
}
