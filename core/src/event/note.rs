//! Notes as events. What is refused is what the Go framework calls a failed sync; what is odd, or
//! waited for, is told under its own code; what is left alone is told only where somebody may look
//! for it in vain.

use crate::event::{Component, Event, Kind, Occasion};
use crate::node::lifecycle::NodeVerdict;
use crate::node::note::NodeNote;
use crate::plan::report::{Note, Report, Severity};
use crate::trigger::Trigger;

/// As what a note of a plan is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// As [`Occasion::SyncLoadBalancerFailed`].
    Refusal,
    /// As [`Occasion::UnAvailableLoadBalancer`].
    NoNodes,
    /// Under the code of what is odd.
    Oddity,
    /// Under its own code.
    Own(Kind),
    /// Not at all: the plan names it.
    Not,
}

/// As what a note of that code and severity is told.
pub(super) fn told(code: &str, severity: Severity) -> Told {
    match (code, severity) {
        ("NoEligibleNodes", _) => Told::NoNodes,
        ("OddSpec", _) => Told::Oddity,
        ("OpenedByOthers" | "AddressKept", _) => Told::Own(Kind::Normal),
        (_, Severity::Blocked) => Told::Refusal,
        (_, Severity::Warning) => Told::Own(Kind::Warning),
        (_, Severity::Waiting) => Told::Own(Kind::Normal),
        (_, Severity::LeftAlone) => Told::Not,
    }
}

impl Note {
    /// The event, if it is one.
    pub fn event(&self) -> Option<Event> {
        let own = |kind, reason| Event::new(Component::Service, kind, reason, self.to_string());
        match told(self.code(), self.severity()) {
            Told::Refusal => Some(refusal(self.to_string())),
            Told::NoNodes => Some(Occasion::UnAvailableLoadBalancer {}.event()),
            Told::Oddity => {
                let Self::OddSpec { warning } = self else { return None };
                Some(own(Kind::Warning, warning.code()))
            }
            Told::Own(kind) => Some(own(kind, self.code())),
            Told::Not => None,
        }
    }
}

/// What stands about a Service, to be told by way of
/// [`Announced`](crate::event::announced::Announced). All that is refused is one event.
pub fn of_report(report: &Report) -> Vec<Event> {
    let is_blocked = |note: &&Note| note.severity() == Severity::Blocked;
    let (blocked, others): (Vec<&Note>, Vec<&Note>) = report.notes.iter().partition(is_blocked);
    let texts: Vec<String> = blocked.iter().map(ToString::to_string).collect();
    let refusal = (!texts.is_empty()).then(|| refusal(texts.join("; ")));
    refusal.into_iter().chain(others.into_iter().filter_map(Note::event)).collect()
}

fn refusal(error: String) -> Event {
    Occasion::SyncLoadBalancerFailed { error }.event()
}

impl NodeNote {
    /// The event: it stands, as those of a Service do.
    pub fn event(&self) -> Event {
        Event::new(Component::Node, Kind::Warning, self.code(), self.to_string())
    }
}

impl NodeVerdict {
    /// What is told about a Node before it is acted upon, or because it is not.
    pub fn event(&self, node: &str) -> Option<Event> {
        let node = node.to_owned();
        match self {
            Self::Delete(_) => Some(Occasion::DeletingNode { node }.event()),
            Self::TooMany => Some(Occasion::NodeDeletionHeld { node }.event()),
            Self::ShutDown | Self::Return | Self::Unconfirmed | Self::Unknown(_) => None,
        }
    }
}

impl Trigger {
    /// What is told about somebody who goes on stripping a Service; the same each time.
    pub fn event(self) -> Option<Event> {
        match self {
            Self::StrippedAgain | Self::LeftStripped => {
                Some(Occasion::AnnotationsStripped { times: crate::trigger::AT_ONCE }.event())
            }
            Self::New | Self::Changed | Self::Stripped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FirewallRuleId, LoadBalancerRuleId, NodeUid, ServiceKey, VirtualMachineId};
    use crate::model::service::{Port, Transport};
    use crate::node::address::ProvidedIpError;
    use crate::parse::SpecWarning;
    use crate::plan::Planned;

    const PORT: Port = Port { transport: Transport::Udp, number: 443 };

    fn udp() -> Note {
        Note::UdpNotServed { port: PORT, network: "iso-1".to_owned() }
    }

    fn sctp() -> Note {
        Note::ProtocolNotServed { port: 5060, protocol: "SCTP".to_owned() }
    }

    fn unknown_annotation() -> Note {
        let warning =
            SpecWarning::UnknownAnnotation { key: "x-algorythm".to_owned(), nearest: None };
        Note::OddSpec { warning }
    }

    fn foreign_rule() -> Note {
        Note::ForeignRule {
            rule: LoadBalancerRuleId::parse("r9").unwrap(),
            name: "manual".to_owned(),
            address: "203.0.113.10".parse().unwrap(),
        }
    }

    fn opened_by_others() -> Note {
        Note::OpenedByOthers { port: PORT, rule: FirewallRuleId::parse("f9").unwrap() }
    }

    #[test]
    fn each_severity_is_told_in_its_way() {
        for (note, expected) in [
            (udp(), Some((Kind::Warning, "SyncLoadBalancerFailed"))),
            (Note::NoEligibleNodes {}, Some((Kind::Warning, "UnAvailableLoadBalancer"))),
            (unknown_annotation(), Some((Kind::Warning, "UnknownAnnotation"))),
            (Note::MembersKept { nodes: "a".to_owned() }, Some((Kind::Warning, "MembersKept"))),
            (Note::NoMembersYet { port: PORT }, Some((Kind::Normal, "NoMembersYet"))),
            (opened_by_others(), Some((Kind::Normal, "OpenedByOthers"))),
            (foreign_rule(), None),
        ] {
            let event = note.event();
            let found = event.as_ref().map(|event| (event.kind, event.reason));
            assert_eq!(found, expected, "{note:?}");
            assert!(event.is_none_or(|event| event.component == Component::Service));
        }
    }

    #[test]
    fn c034_all_that_is_refused_is_one_event_with_every_remedy() {
        let notes = vec![udp(), unknown_annotation(), sctp(), foreign_rule()];
        let events = of_report(&Report { notes });
        let reasons: Vec<_> = events.iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["SyncLoadBalancerFailed", "UnknownAnnotation"]);
        let expected = format!("Error syncing load balancer: {}; {}", udp(), sctp());
        assert_eq!(events[0].message, expected);
        assert!(of_report(&Report::default()).is_empty());
    }

    #[test]
    fn only_what_lacks_nothing_is_settled() {
        let settled = |notes| {
            let nothing = Planned::nothing(ServiceKey::new("shop", "web"));
            Planned { report: Report { notes }, ..nothing }.is_settled()
        };
        assert!(settled(vec![]));
        assert!(settled(vec![unknown_annotation(), opened_by_others(), foreign_rule()]));
        assert!(!settled(vec![unknown_annotation(), udp()]));
        assert!(!settled(vec![Note::NoMembersYet { port: PORT }]));
        assert!(!settled(vec![Note::NoEligibleNodes {}]));
    }

    #[test]
    fn nodes_are_told_by_the_controller_that_found_it() {
        let note = NodeNote::WithoutMachine.event();
        assert_eq!((note.component, note.kind), (Component::Node, Kind::Warning));
        assert_eq!(note.reason, "NodeWithoutMachine");
        let uid = NodeUid::parse("uid-of-node-3").unwrap();
        let reason = |verdict: NodeVerdict| verdict.event("node-3").map(|event| event.reason);
        assert_eq!(reason(NodeVerdict::Delete(uid)), Some("DeletingNode"));
        assert_eq!(reason(NodeVerdict::TooMany), Some("NodeDeletionHeld"));
        assert_eq!(reason(NodeVerdict::Unconfirmed), None);
        assert_eq!(reason(NodeVerdict::Unknown("429".to_owned())), None);
    }

    #[test]
    fn the_list_of_codes_of_nodes_is_complete() {
        let id = || VirtualMachineId::parse("u1").unwrap();
        let (text, part) = ("x".to_owned(), "x".to_owned());
        let notes = [
            NodeNote::WithoutMachine,
            NodeNote::Ambiguous(Vec::new()),
            NodeNote::ProviderIdStale { stale: id(), machine: id() },
            NodeNote::ProvidedIpInvalid(ProvidedIpError::NotAnAddress { text, part }),
            NodeNote::LabelMissing("topology.kubernetes.io/zone"),
        ];
        let codes: Vec<_> = notes.iter().map(NodeNote::code).collect();
        assert_eq!(codes, NodeNote::CODES);
    }

    #[test]
    fn c104_the_third_strip_and_those_that_follow_are_told() {
        let reason = |trigger: Trigger| trigger.event().map(|event| event.reason);
        assert_eq!(reason(Trigger::Stripped), None);
        assert_eq!(reason(Trigger::StrippedAgain), Some("AnnotationsStripped"));
        assert_eq!(Trigger::LeftStripped.event(), Trigger::StrippedAgain.event(), "counted up");
    }

    #[test]
    fn a_stale_provider_id_has_one_code_wherever_it_is_told() {
        let id = |id: &str| VirtualMachineId::parse(id).unwrap();
        let (node, stale, machine) = ("node-2".to_owned(), id("u2"), id("u9"));
        let of_node = NodeNote::ProviderIdStale { stale: stale.clone(), machine: machine.clone() };
        let of_plan = Note::ProviderIDStale { node, stale, machine };
        assert_eq!(of_plan.code(), of_node.code());
    }
}
