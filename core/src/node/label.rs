//! Labels for zone, region and instance type: each has two keys, and one value that may be spelled
//! in several ways.
//!
//! Label values take letters, digits, `-`, `_` and `.` only. The Go controller drops everything but
//! letters and digits, its fork writes `_` for what is illegal: what other Nodes of the cluster carry
//! wins, so that selectors go on matching. Two values that only look alike (`1.5 GB`, `15 GB`) are
//! told apart unless the Go controller has made them the same.

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
    (!legal(text).is_empty()).then(|| text.to_owned())
}

/// How the Nodes of a cluster spell what CloudStack says: every label value with how many carry it.
#[derive(Clone, Debug, Default)]
pub struct Spellings(BTreeMap<(Topic, String), usize>);

impl Spellings {
    /// Reads the labels of all Nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut spellings = Self::default();
        for node in nodes {
            for topic in Topic::ALL {
                if let Some(value) = node.labels.get(topic.key()) {
                    *spellings.0.entry((topic, value.clone())).or_default() += 1;
                }
            }
        }
        spellings
    }

    /// How a value is spelled here: as most Nodes have it, else as we do.
    pub fn spell(&self, topic: Topic, value: &str) -> String {
        let mut best = (0, legal(value));
        for spelling in spellings(value) {
            let carried = self.0.get(&(topic, spelling.clone())).copied().unwrap_or_default();
            if carried > best.0 {
                best = (carried, spelling);
            }
        }
        best.1
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
    let right = |key: &str| labels.get(key).filter(|found| spellings(value).contains(found));
    let kept = right(topic.beta_key()).or_else(|| right(topic.key()));
    let wanted = for_new(topic, kept.map_or(spelling, String::as_str));
    wanted.into_iter().filter(|(key, text)| labels.get(key) != Some(text)).collect()
}

/// Whether a Node has neither label of a topic.
pub fn is_missing(topic: Topic, labels: &Labels) -> bool {
    !labels.contains_key(topic.key()) && !labels.contains_key(topic.beta_key())
}

/// Every way in which one of us spells a value: as it is, as we do, without what is no letter or
/// digit (the Go controller), with `_` for what is illegal (its fork).
fn spellings(value: &str) -> [String; 4] {
    let stripped = value.chars().filter(char::is_ascii_alphanumeric).collect();
    [value.to_owned(), legal(value), stripped, underscored(value)]
}

fn underscored(text: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.chars().map(|c| if is_legal(c) { c } else { '_' }).collect()
}

/// A legal label value: it begins and ends with a letter or digit.
fn legal(text: &str) -> String {
    let replaced = underscored(text);
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
        let carried = ["2CPU4GB", "2CPU4GB", "2_CPU__4_GB", "large"];
        let spellings = Spellings::of(&carried.map(|text| labelled(key, text)));
        assert_eq!(spellings.spell(Topic::InstanceType, "2 CPU, 4 GB"), "2CPU4GB");
        assert_eq!(spellings.spell(Topic::Zone, "2 CPU, 4 GB"), "2_CPU__4_GB");
        assert_eq!(spellings.spell(Topic::InstanceType, "LARGE"), "LARGE");
    }

    #[test]
    fn values_that_only_look_alike_are_told_apart() {
        let key = Topic::InstanceType.key();
        let spellings = Spellings::of(&["2-4", "1.5_GB"].map(|text| labelled(key, text)));
        assert_eq!(spellings.spell(Topic::InstanceType, "24"), "24");
        assert_eq!(spellings.spell(Topic::InstanceType, "15 GB"), "15_GB");
        let labels = for_new(Topic::InstanceType, "2-4");
        let corrected = to_correct(Topic::InstanceType, &labels, "24", "24");
        assert_eq!(corrected, for_new(Topic::InstanceType, "24"));
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
        assert_eq!(correct(&[(ga, "zone_1"), (beta, "zone1")]), set(&[(ga, "zone1")]));
        assert_eq!(correct(&[(ga, "zone1"), (beta, "other")]), set(&[(beta, "zone1")]));
        assert_eq!(correct(&[(ga, "x"), (beta, "y")]), set(&[(ga, "zone_1"), (beta, "zone_1")]));
    }
}
