//! The plan of a Service that wants a load balancer. Reads like a table of contents:
//! address, network, ports, then the steps, the writes on the Service around them, and last what
//! the Service leaves behind.

use std::collections::{BTreeMap, BTreeSet};

use crate::cidr::{CidrSet, Sources};
use crate::model::mark::Mark;
use crate::model::policy::{Mode, SourceRangesMode};
use crate::model::record::Verdict;
use crate::model::service::{LoadBalancerSpec, Port, Service};
use crate::observe::machines::{Backends, Match};
use crate::observe::ownership::{Owner, port_of};
use crate::observe::{Network, RuleState};
use crate::parse::{ParseErrors, SOURCE_LIST_LIMIT};
use crate::plan::action::AclTarget;
use crate::plan::builder::After;
use crate::plan::draft::Draft;
use crate::plan::network::{self, Filter};
use crate::plan::planner::{PlanError, Planner};
use crate::plan::port::{self, Ports, Served};
use crate::plan::public_ip::{self, Target};
use crate::plan::reason::Reason;
use crate::plan::report::Note;
use crate::plan::serve::{self, PortWork, Site};
use crate::plan::standing::Standing;
use crate::plan::writes::{Address, Rules, Writes};
use crate::plan::{
    Planned, firewall_rule, load_balancer_rule, member, network_acl, release, restore, tag, upkeep,
};

/// A Service that can't be read: what already works is left working.
pub(super) fn refuse<'a>(
    planner: &Planner<'a>,
    service: &Service,
    standing: &Standing<'a>,
    errors: &ParseErrors,
) -> Planned {
    let mut draft = Draft::new(planner, service, standing);
    draft.note(Note::InvalidSpec { errors: errors.clone() });
    upkeep::keep(&mut draft);
    restore::begin(&mut draft);
    draft.finish()
}

/// Plans a Service that wants a load balancer.
///
/// # Errors
/// [`PlanError`] if the observation is too narrow.
pub(super) fn plan<'a>(
    planner: &Planner<'a>,
    service: &Service,
    spec: &LoadBalancerSpec,
    standing: &Standing<'a>,
) -> Result<Planned, PlanError> {
    let mut draft = Draft::new(planner, service, standing);
    match decide(&draft, spec) {
        Ok(decision) => {
            decision.carry_out(&mut draft, spec)?;
        }
        Err(note) => {
            draft.note(note);
            upkeep::keep(&mut draft);
        }
    }
    restore::begin(&mut draft);
    Ok(draft.finish())
}

/// What stands before the first step is planned.
struct Decision<'a> {
    target: Target,
    network: &'a Network,
    filter: Filter,
    filter_note: Option<Note>,
    sources: Sources,
    backends: Backends,
    ports: Ports<'a>,
}

fn decide<'a>(draft: &Draft<'a, '_>, spec: &LoadBalancerSpec) -> Result<Decision<'a>, Note> {
    let (planner, service, standing) = (draft.planner, draft.service, draft.standing);
    check_manifest_uid(planner, service, spec)?;
    let sources = rule_sources(planner, spec)?;
    let target = public_ip::choose(planner, service, standing)?;
    let network = network::decide(planner, standing, &target)?;
    let (filter, filter_note) = network::filter(planner, service, standing, network);
    let backends = planner.machines.backends(&network.id);
    let ports = port::sort(planner, service, spec, standing, &target, network);
    Ok(Decision { target, network, filter, filter_note, sources, backends, ports })
}

impl<'a> Decision<'a> {
    fn carry_out(
        self,
        draft: &mut Draft<'a, '_>,
        spec: &LoadBalancerSpec,
    ) -> Result<(), PlanError> {
        self.add_notes(draft, spec);
        let nothing_to_serve = self.ports.served.is_empty();
        if (nothing_to_serve && !self.is_at_home(draft.standing)) || self.would_cut(draft.standing)
        {
            upkeep::keep(draft);
            return Ok(());
        }
        draft.served = self.ports.served.iter().map(|served| served.port).collect();
        let works = self.compare_ports(draft, spec)?;
        for note in works.iter().flat_map(notes_of) {
            draft.note(note);
        }
        let stale = self.stale_ports(draft);
        let writes = Writes {
            spec,
            target: &self.target,
            network: self.network,
            works: &works,
            stale: &stale,
        };
        let address = writes.obtain_address(draft);
        let rules = self.add_port_steps(draft, &works, &address);
        self.remove_stale_ports(draft, &stale);
        self.remove_stale_items(draft);
        let served = !nothing_to_serve && works.iter().all(|work| work.members.serves());
        tag::add_steps(draft, self.target.holding().as_ref());
        let published = writes.publish(draft, &address, &rules, served);
        if served {
            self.leave_replaced_addresses(draft, &writes, &address, &rules, &published);
        }
        writes.begin(draft, &address);
        Ok(())
    }

    /// Whether the address is one that the Service holds already.
    fn is_at_home(&self, standing: &Standing<'_>) -> bool {
        self.target.held().is_some_and(|address| standing.holding(&address.id).is_some())
    }

    /// Whether a port that is served on the old address would not be on the new one. Then the
    /// Service stays where it is, whole.
    fn would_cut(&self, standing: &Standing<'_>) -> bool {
        public_ip::replaced(standing, &self.target).iter().any(|old| {
            let mut rules = standing.rules_on(&old.id);
            rules.any(|rule| self.ports.refused.contains(&port_of(rule)))
        })
    }

    /// Make before break: an old address goes once the new one is published.
    fn leave_replaced_addresses(
        &self,
        draft: &mut Draft<'a, '_>,
        writes: &Writes<'_>,
        address: &Address,
        rules: &Rules,
        published: &After,
    ) {
        let replaced = public_ip::replaced(draft.standing, &self.target);
        let mut left = published.clone();
        let mut forgotten = BTreeSet::new();
        for holding in &replaced {
            let reason = Reason::AddressReplaced;
            left.extend(release::leave_address(draft, holding, published, &reason));
            match release::hand_over_pending(draft.planner, draft.service, holding) {
                Some(note) => draft.note(note),
                None if release::is_waited_for(draft, holding) => {}
                None => _ = forgotten.insert(holding.id.clone()),
            }
        }
        if !forgotten.is_empty() {
            writes.forget(draft, address, rules, &forgotten, &left);
        }
    }

    fn compare_ports(
        &self,
        draft: &Draft<'a, '_>,
        spec: &LoadBalancerSpec,
    ) -> Result<Vec<PortWork<'a>>, PlanError> {
        let mut numbers = BTreeSet::new();
        let mut works = Vec::new();
        for served in &self.ports.served {
            works.push(self.compare_port(draft, spec, served, &mut numbers)?);
        }
        Ok(works)
    }

    fn compare_port(
        &self,
        draft: &Draft<'a, '_>,
        spec: &LoadBalancerSpec,
        served: &Served<'a>,
        numbers: &mut BTreeSet<u32>,
    ) -> Result<PortWork<'a>, PlanError> {
        let (planner, service, standing) = (draft.planner, draft.service, draft.standing);
        let port = served.port;
        let wanted = load_balancer_rule::wanted(
            planner.policy,
            service,
            spec,
            &self.sources,
            port,
            served.node_port,
            self.verdict(),
        );
        let members = match served.rule {
            Some(rule) => member::change(planner, service, standing, rule, &self.backends)?,
            None => member::of_new_rule(&self.backends),
        };
        let features = planner.observed.capabilities.features();
        let change = served
            .rule
            .map(|rule| load_balancer_rule::change(rule, &wanted, features, members.has_some));
        let mut work = PortWork {
            served: served.clone(),
            wanted,
            change,
            members,
            firewall: firewall_rule::FirewallChange::default(),
            acl: None,
            acl_change: network_acl::AclChange::default(),
        };
        match &self.filter {
            Filter::Firewall { trial: _ } => {
                let change = self.compare_firewall(draft, port, &spec.ranges);
                work.firewall = if work.members.serves() { change } else { change.waiting() };
            }
            Filter::Acl(target) => compare_acl(draft, target, &mut work, numbers),
            Filter::Unmanaged => {}
        }
        Ok(work)
    }

    fn compare_firewall(
        &self,
        draft: &Draft<'a, '_>,
        port: Port,
        wanted: &CidrSet,
    ) -> firewall_rule::FirewallChange<'a> {
        let (own, foreign) = match self.target.held() {
            Some(address) => firewall_rule::own_and_foreign(
                draft.planner,
                draft.service,
                draft.standing.basis,
                draft.standing.holding(&address.id),
                &address.id,
                port,
            ),
            None => (Vec::new(), Vec::new()),
        };
        firewall_rule::change(&own, &foreign, port, wanted)
    }

    fn add_port_steps(
        &self,
        draft: &mut Draft<'a, '_>,
        works: &[PortWork<'a>],
        address: &Address,
    ) -> Rules {
        let mut rules = BTreeMap::new();
        let mut acl_steps = After::new();
        for work in works {
            let mut after = address.ready.clone();
            after.extend(self.clear_port_number(draft, work, &address.ready));
            let site = Site {
                address: address.id.clone(),
                network: &self.network.id,
                description: &work.wanted.description,
                trial: match &self.filter {
                    Filter::Firewall { trial } => trial.clone(),
                    Filter::Acl(_) | Filter::Unmanaged => None,
                },
            };
            let steps_before = draft.builder.all();
            let rule = serve::add_steps(&mut draft.builder, &site, work, &after, &acl_steps);
            acl_steps = self.acl_queue(draft, &steps_before, acl_steps);
            rules.insert(work.port(), rule);
        }
        rules
    }

    /// A tier without an ACL list gets one with the first item: items are then made one by one.
    fn acl_queue(&self, draft: &Draft<'_, '_>, before: &After, queue: After) -> After {
        if !matches!(self.filter, Filter::Acl(AclTarget::Network(_))) {
            return After::new();
        }
        let is_acl = |id: &&crate::plan::StepId| id.as_str().starts_with("acl/");
        let added: After = draft.builder.all().difference(before).filter(is_acl).cloned().collect();
        if added.is_empty() { queue } else { added }
    }

    /// What of ours still occupies the number of a port that gets a new rule: a rule of the other
    /// transport, or one that is half deleted.
    fn clear_port_number(
        &self,
        draft: &mut Draft<'a, '_>,
        work: &PortWork<'a>,
        after: &After,
    ) -> After {
        let Some(address) = self.target.held().filter(|_| work.served.rule.is_none()) else {
            return After::new();
        };
        let in_the_way: BTreeSet<(Port, bool)> = draft
            .standing
            .rules_on(&address.id)
            .filter(|rule| rule.public_port == work.port().number)
            .map(|rule| (port_of(rule), rule.state == RuleState::Deleting))
            .collect();
        let mut cleared = After::new();
        for (port, dying) in in_the_way {
            let number = port.number;
            cleared.extend(if port == work.port() && dying {
                release::delete_dying_rules(draft, &address.id, port, after)
            } else {
                let reason = Reason::PortRemoved { port: number };
                release::close_port(draft, &address.id, port, after, &reason)
            });
        }
        cleared
    }

    /// Ports that are ours on the address and not wanted any more.
    fn stale_ports(&self, draft: &Draft<'a, '_>) -> BTreeSet<Port> {
        let Some(address) = self.target.held() else {
            return BTreeSet::new();
        };
        let served = |port: &Port| self.ports.served.iter().any(|s| s.port == *port);
        let refused = |port: &Port| self.ports.refused.contains(port);
        let known = draft.known_ports(&address.id).into_iter();
        known.filter(|port| !served(port) && !refused(port)).collect()
    }

    fn remove_stale_ports(&self, draft: &mut Draft<'a, '_>, stale: &BTreeSet<Port>) {
        let Some(address) = self.target.held() else {
            return;
        };
        let reused = |port: &Port| self.ports.served.iter().any(|s| s.port.number == port.number);
        // A number that is used again was cleared before its new rule.
        for port in stale.iter().filter(|port| !reused(port)) {
            let reason = Reason::PortRemoved { port: port.number };
            release::close_port(draft, &address.id, *port, &After::new(), &reason);
        }
    }

    fn remove_stale_items(&self, draft: &mut Draft<'a, '_>) {
        let served = draft.served.clone();
        let stays = |port: &Port| served.contains(port) || self.ports.refused.contains(port);
        release::close_items_without_rule(draft, stays, |port| Reason::PortRemoved {
            port: port.number,
        });
    }

    fn verdict(&self) -> Verdict {
        match self.target {
            Target::Held { address: _, ours: false } => Verdict::User,
            Target::Held { address: _, ours: true } | Target::New(_) => Verdict::Ours,
        }
    }

    fn add_notes(&self, draft: &mut Draft<'_, '_>, spec: &LoadBalancerSpec) {
        for note in self.ports.notes.iter().cloned().chain(self.filter_note.clone()) {
            draft.note(note);
        }
        let restricted = spec.ranges != CidrSet::everybody();
        let layered = draft.planner.policy.source_ranges_mode == SourceRangesMode::Layered;
        let firewalled = matches!(self.filter, Filter::Firewall { trial: _ });
        if restricted && layered && !firewalled {
            draft.note(Note::RangesWithoutEffect { network: self.network.name.clone() });
        }
        if let Some(address) = self.target.held()
            && draft.standing.unproven.contains(&address.id)
        {
            draft.note(Note::AddressUnproven { address: address.address });
        }
        self.add_node_notes(draft);
        self.add_foreign_rule_notes(draft);
    }

    fn add_node_notes(&self, draft: &mut Draft<'_, '_>) {
        let machines = &draft.planner.machines;
        if machines.eligible == 0 {
            draft.note(Note::NoEligibleNodes {});
            return;
        }
        for node in &machines.unmatched {
            draft.note(match machines.matches.get(node) {
                Some(Match::Ambiguous(candidates)) => Note::NodeAmbiguous {
                    node: node.clone(),
                    candidates: network::some_names(
                        candidates.iter().map(ToString::to_string).collect::<Vec<_>>().iter(),
                    ),
                },
                _ => network::without_machine(draft.planner, node),
            });
        }
        for (node, machine) in &self.backends.without_nic {
            let network = self.network.name.clone();
            let (node, machine) = (node.clone(), machine.clone());
            draft.note(Note::NodeOutsideNetwork { node, machine, network });
        }
        for (node, found) in &machines.matches {
            if let Match::Replaced { stale, machine } = found {
                let (stale, machine) = (stale.clone(), machine.clone());
                draft.note(Note::ProviderIDStale { node: node.clone(), stale, machine });
            }
        }
        if member::all_kept(draft.planner, &self.backends) {
            let nodes = network::some_names(draft.planner.desired.nodes.keys());
            draft.note(Note::MembersKept { nodes });
        }
    }

    fn add_foreign_rule_notes(&self, draft: &mut Draft<'_, '_>) {
        let Some(address) = self.target.held() else {
            return;
        };
        let planner = draft.planner;
        for rule in planner.observed.rules_on(&address.id) {
            let note = match planner.owners.owner(rule) {
                Owner::Service(..) => continue,
                Owner::Unknown(mark) => Note::RuleOfUnknownService {
                    rule: rule.id.clone(),
                    cluster: mark.cluster,
                    service: mark.service,
                },
                Owner::Nobody => Note::ForeignRule {
                    rule: rule.id.clone(),
                    name: rule.name.clone(),
                    address: address.address,
                },
            };
            draft.note(note);
        }
    }
}

/// Compares the ACL item of a port; `numbers` are those that this plan gives away.
fn compare_acl<'a>(
    draft: &Draft<'a, '_>,
    target: &AclTarget,
    work: &mut PortWork<'a>,
    numbers: &mut BTreeSet<u32>,
) {
    let (planner, service, standing) = (draft.planner, draft.service, draft.standing);
    let port = work.port();
    let (change, number) = match target {
        AclTarget::List(list) => {
            let change = network_acl::change(planner, service, standing, list, port);
            let number = change
                .create
                .then(|| network_acl::number(planner.observed, list, port, numbers))
                .flatten();
            (change, number)
        }
        AclTarget::Network(_) => {
            (network_acl::AclChange { create: true, ..Default::default() }, None)
        }
    };
    numbers.extend(number);
    work.acl_change = change;
    work.acl = Some((target.clone(), number));
}

fn notes_of(work: &PortWork<'_>) -> Vec<Note> {
    let mut notes = work.firewall.notes.clone();
    notes.extend(work.acl_change.note.clone());
    if !work.members.serves() && (work.opens() || work.change.is_none()) {
        notes.push(Note::NoMembersYet { port: work.port() });
    }
    notes
}

/// Who may use the rules themselves.
fn rule_sources(planner: &Planner<'_>, spec: &LoadBalancerSpec) -> Result<Sources, Note> {
    let ranges = Sources::from_set(spec.ranges.clone());
    let strict = planner.policy.source_ranges_mode == SourceRangesMode::Strict;
    let sources = match (&spec.rule_sources, ranges) {
        (annotation, Sources::Everybody) => annotation.clone(),
        (annotation, _) if !strict => annotation.clone(),
        (Sources::Everybody, ranges) => ranges,
        (annotation, ranges) if *annotation == ranges => ranges,
        (annotation, ranges) => {
            let (annotation, ranges) = (annotation.to_string(), ranges.to_string());
            return Err(Note::SourcesContradict { annotation, ranges });
        }
    };
    let texts = sources.to_set();
    let length = texts.joined().len();
    if length > SOURCE_LIST_LIMIT {
        let fitting = fitting(&texts.sorted_texts());
        return Err(Note::SourcesTooLong { length, limit: SOURCE_LIST_LIMIT, fitting });
    }
    let capabilities = &planner.observed.capabilities;
    match capabilities.version {
        Some(version)
            if !sources.is_everybody() && !capabilities.features().restricts_rule_sources() =>
        {
            Err(Note::SourcesNotServed { version: version.to_string() })
        }
        _ => Ok(sources),
    }
}

/// How many entries of a comma-joined list fit into [`SOURCE_LIST_LIMIT`].
fn fitting(texts: &[&str]) -> usize {
    let ends = texts.iter().scan(0, |end, text| {
        *end += text.len() + 1;
        Some(*end - 1)
    });
    ends.take_while(|end| *end <= SOURCE_LIST_LIMIT).count()
}

/// A manifest that was not taken from the cluster has another uid than the rules that its Service
/// has: planning it would make everything twice.
fn check_manifest_uid(
    planner: &Planner<'_>,
    service: &Service,
    spec: &LoadBalancerSpec,
) -> Result<(), Note> {
    if planner.policy.mode != Mode::Manifests {
        return Ok(());
    }
    let published = service.recorded.ingress.iter().filter_map(|entry| entry.ip.as_deref());
    let published = published.filter_map(|ip| ip.parse().ok());
    for ip in service.requested_address.into_iter().chain(published) {
        let Some(address) = planner.observed.address_by_ip(ip) else {
            continue;
        };
        let marks = planner
            .observed
            .rules_on(&address.id)
            .filter_map(|rule| Mark::parse(rule.description.as_deref()?));
        let ports: BTreeSet<u16> = spec.ports.iter().map(|port| port.number).collect();
        for mark in marks.filter(|mark| mark.cluster == planner.policy.cluster_id) {
            let same_port = Port::parse(&mark.port).is_some_and(|p| ports.contains(&p.number));
            let known = planner.desired.services.values().any(|other| other.uid == mark.service);
            if same_port && !known {
                return Err(Note::ManifestWithoutUid { address: ip, uid: mark.service });
            }
        }
    }
    Ok(())
}
