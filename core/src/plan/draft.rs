//! One plan in the making: inputs, steps and notes, as the planners share them.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NetworkAclItemId, PublicIpId};
use crate::model::policy::Mode;
use crate::model::record::Opening;
use crate::model::service::{Port, Service};
use crate::observe::index::Observed;
use crate::observe::ownership::port_of;
use crate::plan::builder::Builder;
use crate::plan::planner::Planner;
use crate::plan::report::{Note, Report};
use crate::plan::standing::Standing;
use crate::plan::{Planned, StepId};

/// See the module.
#[derive(Debug)]
pub(super) struct Draft<'a, 'b> {
    /// All inputs.
    pub(super) planner: &'b Planner<'a>,
    /// The Service.
    pub(super) service: &'b Service,
    /// What it holds.
    pub(super) standing: &'b Standing<'a>,
    /// The ports that the plan serves, on whatever address.
    pub(super) served: BTreeSet<Port>,
    /// The steps that close ACL items.
    pub(super) closed_items: BTreeMap<NetworkAclItemId, StepId>,
    /// The steps.
    pub(super) builder: Builder,
    /// The notes.
    pub(super) report: Report,
}

impl<'a, 'b> Draft<'a, 'b> {
    /// A plan without steps, with the notes that any plan of the Service has.
    pub(super) fn new(
        planner: &'b Planner<'a>,
        service: &'b Service,
        standing: &'b Standing<'a>,
    ) -> Self {
        let builder = Builder::new(service.key.clone());
        let mut draft = Self {
            planner,
            service,
            standing,
            served: BTreeSet::new(),
            closed_items: BTreeMap::new(),
            builder,
            report: Report::default(),
        };
        draft.note_odd_service();
        draft
    }

    /// Adds a note.
    pub(super) fn note(&mut self, note: Note) {
        self.report.add(note);
    }

    /// Whether records are kept on the Service.
    pub(super) fn keeps_records(&self) -> bool {
        self.planner.policy.mode == Mode::Cluster
    }

    /// The ports that are or were ours on an address.
    pub(super) fn known_ports(&self, address: &PublicIpId) -> BTreeSet<Port> {
        known_ports(self.planner.observed, self.service, self.standing, address)
    }

    /// The finished plan.
    pub(super) fn finish(mut self) -> Planned {
        let held = self.standing.addresses.iter().map(|holding| holding.id.clone());
        let asked = self.service.requested_address;
        let asked = asked.and_then(|ip| self.planner.observed.address_by_ip(ip));
        self.builder.work_on(held.chain(asked.map(|address| address.id.clone())));
        Planned { plan: self.builder.finish(), report: self.report }
    }

    fn note_odd_service(&mut self) {
        for warning in &self.service.warnings {
            self.report.add(Note::OddSpec { warning: warning.clone() });
        }
        if self.service.recorded.of_another_service {
            self.report.add(Note::RecordOfAnotherService {});
        }
        for address in &self.standing.gone {
            self.report.add(Note::AddressGone { address: address.clone() });
        }
    }
}

/// The ports that are or were a Service's on an address: of rules, of recorded openings, of the
/// spec. A port that somebody else's rule serves is not among them: what is open there is theirs.
pub(super) fn known_ports(
    observed: &Observed,
    service: &Service,
    standing: &Standing<'_>,
    address: &PublicIpId,
) -> BTreeSet<Port> {
    let rules: BTreeSet<Port> = standing.rules_on(address).map(port_of).collect();
    let record = service.recorded.record.iter();
    let openings = record.flat_map(|record| &record.openings).filter_map(Opening::port);
    let asked = service.spec.iter().flat_map(|spec| &spec.ports).filter_map(|port| {
        let transport = port.transport.as_ref().ok()?;
        Some(Port { transport: *transport, number: port.number })
    });
    let served: BTreeSet<Port> = observed.rules_on(address).map(port_of).collect();
    let by_others = |port: &Port| served.contains(port) && !rules.contains(port);
    let known = rules.iter().copied().chain(openings).chain(asked);
    known.filter(|port| !by_others(port)).collect()
}
