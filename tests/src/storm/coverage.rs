//! Which faults struck which commands, and when: at the first call of a command in a storm, at its
//! last one, or between.

use std::collections::BTreeMap;

use ccm_simulator::faults::{FaultKind, Mishap};

use super::script::KubeTrouble;

/// When a fault struck, among the calls of its command in one storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// At the first call.
    First,
    /// Between.
    Middle,
    /// At the last call.
    Last,
}

/// The calls of one storm, while it is told.
#[derive(Debug, Default)]
pub struct Strikes {
    /// How often each command was called.
    pub calls: BTreeMap<String, u64>,
    struck: Vec<(String, &'static str, u64)>,
    kubernetes: BTreeMap<String, u64>,
}

/// How often each fault struck each command, by moment.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    by_moment: BTreeMap<(String, &'static str), [u64; 3]>,
    kubernetes: BTreeMap<String, u64>,
}

impl Strikes {
    /// A command is called, and a fault may strike it.
    pub fn note_call(&mut self, command: &str, fault: Option<&FaultKind>) {
        let calls = self.calls.entry(command.to_owned()).or_default();
        *calls += 1;
        if let Some(fault) = fault {
            self.struck.push((command.to_owned(), kind_name(fault), *calls));
        }
    }

    /// A fault struck a request to an API server.
    pub fn note_kubernetes(&mut self, trouble: KubeTrouble) {
        *self.kubernetes.entry(format!("{trouble:?}")).or_default() += 1;
    }

    /// How often a command was called.
    pub fn calls(&self, command: &str) -> u64 {
        self.calls.get(command).copied().unwrap_or_default()
    }

    /// What they add up to.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage { kubernetes: self.kubernetes.clone(), ..Coverage::default() };
        for (command, kind, number) in &self.struck {
            let moment = match *number {
                1 => Moment::First,
                number if number == self.calls(command) => Moment::Last,
                _ => Moment::Middle,
            };
            let counts = coverage.by_moment.entry((command.clone(), kind)).or_default();
            counts[moment as usize] += 1;
        }
        coverage
    }
}

impl Coverage {
    /// Adds that of another storm.
    pub fn add(&mut self, other: &Self) {
        for (key, counts) in &other.by_moment {
            let sum = self.by_moment.entry(key.clone()).or_default();
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        for (trouble, count) in &other.kubernetes {
            *self.kubernetes.entry(trouble.clone()).or_default() += count;
        }
    }

    /// How many faults struck.
    pub fn faults(&self) -> u64 {
        let cloud: u64 = self.by_moment.values().flatten().sum();
        cloud + self.kubernetes.values().sum::<u64>()
    }

    /// As people read it.
    pub fn table(&self) -> String {
        let heads = ("command", "fault", "first", "middle", "last");
        let mut lines = vec![row(heads)];
        for ((command, kind), [first, middle, last]) in &self.by_moment {
            let [first, middle, last] = [first, middle, last].map(u64::to_string);
            lines.push(row((command, kind, &first, &middle, &last)));
        }
        for (trouble, count) in &self.kubernetes {
            lines.push(row(("Kubernetes", trouble, "", &count.to_string(), "")));
        }
        lines.join("\n")
    }
}

fn row((command, fault, first, middle, last): (&str, &str, &str, &str, &str)) -> String {
    format!("{command:<30} {fault:<16} {first:>7} {middle:>7} {last:>7}")
}

/// A kind of fault, without code or time.
fn kind_name(kind: &FaultKind) -> &'static str {
    match kind {
        FaultKind::Before(Mishap::Error { .. }) => "error before",
        FaultKind::After(Mishap::Error { .. }) => "error after",
        FaultKind::Before(Mishap::Closed) => "request lost",
        FaultKind::After(Mishap::Closed) => "answer lost",
        FaultKind::Before(_) => "nonsense before",
        FaultKind::After(_) => "nothing after",
        FaultKind::Page(_) => "page",
        FaultKind::Job(_) => "job",
    }
}
