//! Labels for zone, region and instance type: each has two keys, and one value that may be spelled
//! in several ways.
//!
//! Label values take letters, digits, `-`, `_` and `.` only. The Go controller drops everything but
//! letters and digits, its fork writes `_`: spellings that differ only in such characters mean the
//! same, and what other Nodes of the cluster carry wins, so that selectors go on matching.

use std::collections::BTreeMap;

use crate::model::node::Node;
use crate::observe::VirtualMachine;

/// Most characters of a label value.
const LONGEST_VALUE: usize = 63;

/// What two labels tell together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// `zonename` of the virtual machine.
    Zone,
    /// The configured region, else the zone.
    Region,
    /// `serviceofferingname` of the virtual machine.
    InstanceType,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zone, Self::Region, Self::InstanceType];

    /// The stable key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Zone => "topology.kubernetes.io/zone",
            Self::Region => "topology.kubernetes.io/region",
            Self::InstanceType => "node.kubernetes.io/instance-type",
        }
    }

    /// The old key, which the Go framework still writes and copies from.
    pub fn beta_key(self) -> &'static str {
        match self {
            Self::Zone => "failure-domain.beta.kubernetes.io/zone",
            Self::Region => "failure-domain.beta.kubernetes.io/region",
            Self::InstanceType => "beta.kubernetes.io/instance-type",
        }
    }
}

/// Labels to set, by key.
pub type Labels = BTreeMap<String, String>;

/// What a virtual machine is called in one topic; `None` if CloudStack does not say.
pub fn value(topic: Topic, machine: &VirtualMachine, region: Option<&str>) -> Option<String> {
    let text = match topic {
        Topic::Zone => machine.zone.as_str(),
        Topic::Region => region.unwrap_or(&machine.zone),
        Topic::InstanceType => machine.offering.as_deref()?,
    };
    (!core(text).is_empty()).then(|| text.to_owned())
}

/// How the Nodes of a cluster spell what CloudStack says.
#[derive(Clone, Debug, Default)]
pub struct Spellings {
    /// By topic and core: every spelling with how many Nodes carry it.
    known: BTreeMap<(Topic, String), BTreeMap<String, usize>>,
}

impl Spellings {
    /// Reads the labels of all Nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut spellings = Self::default();
        for node in nodes {
            for topic in Topic::ALL {
                if let Some(value) = node.labels.get(topic.key()) {
                    spellings.count(topic, value);
                }
            }
        }
        spellings
    }

    fn count(&mut self, topic: Topic, value: &str) {
        let spelled = self.known.entry((topic, core(value))).or_default();
        *spelled.entry(value.to_owned()).or_default() += 1;
    }

    /// How a value is spelled here: as most Nodes have it (ties go to the lowest), else with legal
    /// characters kept and `_` for the others.
    pub fn spell(&self, topic: Topic, value: &str) -> String {
        let known = self.known.get(&(topic, core(value)));
        let usual = known.and_then(|known| {
            known.iter().max_by_key(|(text, count)| (**count, std::cmp::Reverse(*text)))
        });
        usual.map_or_else(|| legal(value), |(text, _)| text.clone())
    }
}

/// Both labels of a topic for a new Node.
pub fn for_new(topic: Topic, spelling: &str) -> Labels {
    [topic.key(), topic.beta_key()]
        .into_iter()
        .map(|key| (key.to_owned(), spelling.to_owned()))
        .collect()
}

/// What is set on a Node that has at least one of the two labels: a right one is copied to the
/// other, the old key's first; two wrong ones are replaced.
pub fn to_correct(topic: Topic, labels: &Labels, value: &str, spelling: &str) -> Labels {
    let right = |key: &str| labels.get(key).filter(|found| core(found) == core(value));
    let kept = right(topic.beta_key()).or_else(|| right(topic.key()));
    let wanted = for_new(topic, kept.map_or(spelling, String::as_str));
    wanted.into_iter().filter(|(key, text)| labels.get(key) != Some(text)).collect()
}

/// Whether a Node has neither label of a topic.
pub fn is_missing(topic: Topic, labels: &Labels) -> bool {
    !labels.contains_key(topic.key()) && !labels.contains_key(topic.beta_key())
}

/// What all spellings of a value have in common: its letters and digits.
fn core(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// A legal label value: it begins and ends with a letter or digit.
fn legal(text: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let replaced: String = text.chars().map(|c| if is_legal(c) { c } else { '_' }).collect();
    let trimmed = replaced.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let cut: String = trimmed.chars().take(LONGEST_VALUE).collect();
    cut.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::node;
    use crate::parse::raw::RawNode;

    fn labelled(key: &str, value: &str) -> Node {
        let labels = [(key.to_owned(), value.to_owned())].into();
        node(&RawNode { labels, ..RawNode::default() })
    }

    #[test]
    fn illegal_characters_become_underscores_and_both_ends_are_letters_or_digits() {
        let spell = |text: &str| Spellings::default().spell(Topic::InstanceType, text);
        for (text, spelled) in [
            ("medium", "medium"),
            ("2 CPU / 4 GB", "2_CPU___4_GB"),
            ("(large)", "large"),
            ("größe-1.b_x", "gr__e-1.b_x"),
        ] {
            assert_eq!(spell(text), spelled);
        }
        let long = spell(&format!("{}-{}", "a".repeat(62), "b".repeat(30)));
        assert_eq!(long, "a".repeat(62));
    }

    #[test]
    fn the_spelling_of_most_other_nodes_wins() {
        let key = Topic::InstanceType.key();
        let nodes = ["2CPU4GB", "2CPU4GB", "2_CPU_4_GB", "large"].map(|text| labelled(key, text));
        let spellings = Spellings::of(&nodes);
        assert_eq!(spellings.spell(Topic::InstanceType, "2 CPU, 4 GB"), "2CPU4GB");
        assert_eq!(spellings.spell(Topic::Zone, "2 CPU, 4 GB"), "2_CPU__4_GB");
        let tie = ["b-1", "b.1"].map(|text| labelled(key, text));
        assert_eq!(Spellings::of(&tie).spell(Topic::InstanceType, "b 1"), "b-1");
    }

    #[test]
    fn another_spelling_of_the_same_value_is_left_alone() {
        let (ga, beta) = (Topic::Zone.key(), Topic::Zone.beta_key());
        let correct = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            to_correct(Topic::Zone, &labels, "zone 1", "zone_1")
        };
        let set = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        assert_eq!(correct(&[(ga, "zone1"), (beta, "zone1")]), Labels::new());
        assert_eq!(correct(&[(beta, "zone1")]), set(&[(ga, "zone1")]));
        assert_eq!(correct(&[(ga, "zone1")]), set(&[(beta, "zone1")]));
        assert_eq!(correct(&[(ga, "zone-1"), (beta, "zone1")]), set(&[(ga, "zone1")]));
        assert_eq!(correct(&[(ga, "zone1"), (beta, "other")]), set(&[(beta, "zone1")]));
        assert_eq!(correct(&[(ga, "x"), (beta, "y")]), set(&[(ga, "zone_1"), (beta, "zone_1")]));
    }
}
