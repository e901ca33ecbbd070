//! What can happen, small enough to shrink well.

use ccm_tests::interrupted::Interruption;
use ccm_tests::wish::{Wish, wishes};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A world and what happens in it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) release: &'static str,
    pub(crate) place: Place,
    pub(crate) events: Vec<(Event, Interruption)>,
}

/// Where the nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Isolated,
    TierWithList,
    TierAllow,
    TierDeny,
    TierWithoutList,
    TierWithFirewall,
    PlainProject,
    RestrictedProject,
}

/// One thing that somebody does. Services and Nodes are numbered.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Create(usize, Wish),
    /// A Service comes with all that the Go controller left of it.
    Adopt(usize, Wish, Legacy),
    Change(usize, Wish),
    Delete(usize),
    ChangeType(usize),
    /// Somebody else's class is set.
    ChangeClass(usize),
    NodeLeaves(usize),
    NodeJoins(usize),
    NodeExcluded(usize),
    /// Somebody strips our annotations.
    Strip(usize),
    /// Somebody works on the Service's rules in CloudStack.
    ByHand(usize, Hand),
    /// Somebody puts a rule of their own on the Service's address.
    ForeignRule(usize),
    Restart,
}

/// What somebody does to a rule of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hand {
    DeleteRule,
    RemoveMember,
    ChangeAlgorithm,
    Rename,
    CloseFirewall,
}

/// How the Go controller left a Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Legacy {
    /// Names as the in-tree provider gave them: `<lb>-<port>`.
    pub(crate) in_tree: bool,
    /// Whether it wrote whose the address is.
    pub(crate) verdict: bool,
}

const RELEASES: [&str; 9] = [
    "4.16.1.0", "4.18.0.0", "4.20.0.0", "4.21.0.0", "4.21.0.0", "4.22.0.0", "4.22.0.0", "4.23.0.0",
    "4.23.0.0",
];

fn events() -> impl Strategy<Value = Event> {
    let service = || 0_usize..2;
    let hand = select(vec![
        Hand::DeleteRule,
        Hand::RemoveMember,
        Hand::ChangeAlgorithm,
        Hand::Rename,
        Hand::CloseFirewall,
    ]);
    prop_oneof![
        5 => (service(), wishes()).prop_map(|(n, wish)| Event::Create(n, wish)),
        6 => (service(), wishes()).prop_map(|(n, wish)| Event::Change(n, wish)),
        2 => service().prop_map(Event::Delete),
        1 => service().prop_map(Event::ChangeType),
        1 => service().prop_map(Event::ChangeClass),
        1 => (0_usize..2).prop_map(Event::NodeLeaves),
        1 => (0_usize..2).prop_map(Event::NodeJoins),
        1 => (0_usize..2).prop_map(Event::NodeExcluded),
        1 => service().prop_map(Event::Strip),
        2 => (service(), hand).prop_map(|(n, hand)| Event::ByHand(n, hand)),
        1 => service().prop_map(Event::ForeignRule),
        1 => Just(Event::Restart),
        3 => service().prop_flat_map(adoptions),
    ]
}

fn creations() -> impl Strategy<Value = Event> {
    wishes().prop_map(|wish| Event::Create(0, wish))
}

fn adoptions(service: usize) -> impl Strategy<Value = Event> {
    (wishes(), any::<bool>(), any::<bool>()).prop_map(move |(wish, in_tree, verdict)| {
        Event::Adopt(service, wish, Legacy { in_tree, verdict })
    })
}

fn first_events() -> impl Strategy<Value = Event> {
    prop_oneof![4 => creations(), 2 => adoptions(0)]
}

fn places() -> impl Strategy<Value = Place> {
    select(vec![
        Place::Isolated,
        Place::Isolated,
        Place::TierWithList,
        Place::TierAllow,
        Place::TierDeny,
        Place::TierWithoutList,
        Place::TierWithFirewall,
        Place::PlainProject,
        Place::RestrictedProject,
    ])
}

fn any_history(
    interruption: impl Strategy<Value = Interruption>,
) -> impl Strategy<Value = History> {
    let releases = select(RELEASES.to_vec());
    let interruption = std::sync::Arc::new(interruption);
    let rest = vec((events(), interruption.clone()), 0..7);
    let first = (first_events(), interruption);
    (releases, places(), first, rest).prop_map(|(release, place, first, rest)| {
        let events = std::iter::once(first).chain(rest).collect();
        History { release, place, events }
    })
}

/// Nothing goes wrong.
pub(crate) fn histories() -> impl Strategy<Value = History> {
    any_history(Just(Interruption::Never))
}

/// Every execution may be interrupted, anywhere.
pub(crate) fn interrupted_histories() -> impl Strategy<Value = History> {
    let interruptions = prop_oneof![
        1 => Just(Interruption::Never),
        3 => (0_usize..12).prop_map(Interruption::KilledBefore),
        2 => (0_usize..12).prop_map(Interruption::Refused),
        2 => (0_usize..12).prop_map(Interruption::AnswerLost),
    ];
    any_history(interruptions)
}
