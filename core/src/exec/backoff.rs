//! How long an object waits before it is tried again.

use std::time::Duration;

use crate::exec::error::Fault;

/// Failures in a row of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Delay after the first transient failure.
    const FIRST: Duration = Duration::from_secs(5);
    /// Longest delay, and the re-check of what only a person can change.
    const LONGEST: Duration = Duration::from_mins(5);
    /// Re-check after a quota or a missing permission.
    const QUOTA: Duration = Duration::from_mins(10);

    /// Forgets earlier failures.
    pub fn handle_success(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure and says how long to wait: 5, 10, 20 … 300 s for what may pass by itself.
    /// `jitter` spreads objects that failed together: 0.0 to 1.0, adds up to a tenth.
    pub fn handle_failure(&mut self, fault: Fault, jitter: f64) -> Duration {
        let delay = match fault {
            Fault::Transient | Fault::Throttled | Fault::Cloud | Fault::Bug => self.doubled(),
            Fault::Refused => Self::LONGEST,
            Fault::Quota | Fault::Permission => Self::QUOTA,
        };
        self.failures = self.failures.saturating_add(1);
        delay + delay.mul_f64(jitter.clamp(0.0, 1.0) / 10.0)
    }

    fn doubled(self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        Self::FIRST.saturating_mul(factor).min(Self::LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Learned;

    #[test]
    fn transient_failures_double_up_to_five_minutes() {
        let mut backoff = Backoff::default();
        let delays: Vec<u64> =
            (0..8).map(|_| backoff.handle_failure(Fault::Transient, 0.0).as_secs()).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300]);
        backoff.handle_success();
        assert_eq!(backoff.handle_failure(Fault::Transient, 0.0).as_secs(), 5);
    }

    #[test]
    fn what_was_learned_from_a_failure_is_known_when_it_is_tried_again() {
        let mut backoff = Backoff::default();
        for fault in [Fault::Refused, Fault::Quota, Fault::Permission] {
            let delay = backoff.handle_failure(fault, 1.0);
            assert!(delay < Learned::MEMORY.unsigned_abs(), "{fault:?}: {delay:?}");
        }
    }

    #[test]
    fn what_only_a_person_can_change_is_not_retried_hotly() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.handle_failure(Fault::Refused, 0.0).as_secs(), 300);
        assert_eq!(backoff.handle_failure(Fault::Quota, 0.0).as_secs(), 600);
        assert_eq!(backoff.handle_failure(Fault::Permission, 0.0).as_secs(), 600);
        assert_eq!(backoff.handle_failure(Fault::Refused, 1.0).as_secs(), 330);
    }

    #[test]
    fn a_worse_fault_never_waits_less() {
        let in_order = [
            Fault::Transient,
            Fault::Throttled,
            Fault::Cloud,
            Fault::Bug,
            Fault::Refused,
            Fault::Quota,
            Fault::Permission,
        ];
        assert!(in_order.is_sorted());
        for failures in [0, 3, 100] {
            let delay = |fault: Fault| Backoff { failures }.handle_failure(fault, 0.0);
            assert!(in_order.is_sorted_by_key(|fault| delay(*fault)), "after {failures}");
        }
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let mut backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.handle_failure(Fault::Cloud, 0.0).as_secs(), 300);
    }
}
