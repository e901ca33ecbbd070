//! `/metrics/slis`: how often each check was well when a probe asked for it, under the names that
//! Kubernetes gives its own components.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::health::Probe;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Slis(Mutex<BTreeMap<(Probe, &'static str), Asked>>);

/// What a check said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    well: u64,
    failed: u64,
    last_was_well: bool,
}

impl Slis {
    /// A probe asked, and this is what the check said.
    pub(super) fn note(&self, probe: Probe, check: &'static str, well: bool) {
        let mut asked = self.asked();
        let asked = asked.entry((probe, check)).or_default();
        if well {
            asked.well += 1;
        } else {
            asked.failed += 1;
        }
        asked.last_was_well = well;
    }

    /// Forgets everything.
    pub(super) fn reset(&self) {
        self.asked().clear();
    }

    /// Everything, in the text form that Prometheus reads.
    pub(super) fn text(&self) -> String {
        let asked = self.asked();
        let mut text = String::from(
            "# HELP kubernetes_healthcheck 1 if the check was well when it was last asked for\n\
             # TYPE kubernetes_healthcheck gauge\n",
        );
        for ((probe, check), Asked { last_was_well, .. }) in &*asked {
            let (kind, value) = (probe.name(), u8::from(*last_was_well));
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "kubernetes_healthcheck{{name=\"{check}\",type=\"{kind}\"}} {value}"
            );
        }
        text.push_str(
            "# HELP kubernetes_healthchecks How often the check said so\n\
             # TYPE kubernetes_healthchecks counter\n",
        );
        for ((probe, check), Asked { well, failed, last_was_well: _ }) in &*asked {
            for (status, count) in [("success", well), ("error", failed)] {
                let kind = probe.name();
                let _ = writeln!(
                    text,
                    "kubernetes_healthchecks_total{{name=\"{check}\",type=\"{kind}\",\
                     status=\"{status}\"}} {count}"
                );
            }
        }
        text.push_str("# EOF\n");
        text
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<(Probe, &'static str), Asked>> {
        let Self(asked) = self;
        asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_counts_until_it_is_reset() {
        let slis = Slis::default();
        for well in [true, true, false] {
            slis.note(Probe::Healthz, "leaderElection", well);
        }
        let text = slis.text();
        for line in [
            "kubernetes_healthcheck{name=\"leaderElection\",type=\"healthz\"} 0",
            "kubernetes_healthchecks_total{name=\"leaderElection\",type=\"healthz\",status=\"success\"} 2",
            "kubernetes_healthchecks_total{name=\"leaderElection\",type=\"healthz\",status=\"error\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        slis.reset();
        assert!(!slis.text().contains("leaderElection"));
    }
}
