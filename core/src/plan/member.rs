//! Which virtual machines stand behind a rule.
//!
//! 1. The VMs of eligible Nodes with an address in the rule's network are members; with
//!    `node-readiness = ready` those of ready ones, if there is any.
//! 2. A member stays while it can't be told whether its Node is gone: its name is ambiguous, or its
//!    VM has lost its address.
//! 3. If there are eligible Nodes but none could be matched, all members stay.

use std::collections::BTreeSet;

use crate::ids::{LoadBalancerRuleId, VirtualMachineId};
use crate::model::record::{MemberDigest, members_digest};
use crate::model::service::{Lifecycle, Port, Service};
use crate::observe::machines::Backends;
use crate::observe::ownership::port_of;
use crate::observe::{LoadBalancerRule, RuleState};
use crate::plan::planner::{Depth, PlanError, Planner};
use crate::plan::standing::{Basis, Standing};

/// What becomes of a rule's members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberChange {
    /// To assign.
    pub(super) add: BTreeSet<VirtualMachineId>,
    /// To remove, after that.
    pub(super) remove: BTreeSet<VirtualMachineId>,
    /// All members afterwards; a recreate assigns these.
    pub(super) after: BTreeSet<VirtualMachineId>,
    /// Digest of [`MemberChange::after`].
    pub(super) digest: String,
    /// Whether the rule has members now.
    pub(super) has_some: bool,
}

impl MemberChange {
    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }

    /// Whether somebody answers afterwards.
    pub(super) fn serves(&self) -> bool {
        !self.after.is_empty()
    }
}

/// The members of a rule that is yet to be made.
pub(super) fn of_new_rule(backends: &Backends) -> MemberChange {
    MemberChange {
        add: backends.vms.clone(),
        remove: BTreeSet::new(),
        after: backends.vms.clone(),
        digest: backends.digest.clone(),
        has_some: false,
    }
}

/// Compares the members of a rule with what they should be.
///
/// # Errors
/// [`PlanError::MembersNotRead`] if they are neither observed nor vouched for.
pub(super) fn change(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    rule: &LoadBalancerRule,
    backends: &Backends,
) -> Result<MemberChange, PlanError> {
    let Some(current) = planner.observed.members.get(&rule.id) else {
        if vouched(service, standing, rule, backends) {
            let kept = MemberChange { add: BTreeSet::new(), ..of_new_rule(backends) };
            return Ok(MemberChange { has_some: true, ..kept });
        }
        return Err(PlanError::MembersNotRead(rule.id.clone()));
    };
    let wanted = wanted(planner, backends, current);
    Ok(MemberChange {
        add: wanted.difference(current).cloned().collect(),
        remove: current.difference(&wanted).cloned().collect(),
        digest: members_digest(&wanted),
        after: wanted,
        has_some: !current.is_empty(),
    })
}

/// Whether all members stay because no Node could be matched.
pub(super) fn all_kept(planner: &Planner<'_>, backends: &Backends) -> bool {
    backends.vms.is_empty() && planner.machines.eligible > 0
}

/// The rules of a Service whose members must be read.
pub(super) fn to_read(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    depth: Depth,
) -> Vec<LoadBalancerRuleId> {
    if service.lifecycle != Lifecycle::Wanted {
        return Vec::new();
    }
    // Of a Service that can't be read all rules stay and follow the nodes.
    let is_wanted = |rule: &LoadBalancerRule| match &service.spec {
        Ok(spec) => spec.ports.iter().any(|port| port.number == rule.public_port),
        Err(_) => true,
    };
    let rules = standing.rules.iter().map(|(rule, _)| *rule).filter(|rule| {
        rule.state != RuleState::Deleting
            && is_wanted(rule)
            && (is_read_anyway(&rule.id, depth)
                || !vouched(service, standing, rule, &planner.machines.backends(&rule.network)))
    });
    rules.map(|rule| rule.id.clone()).collect()
}

/// Whether members are read although a record vouches for them. Whose turn it is depends on the id
/// alone, so that a restart in the middle of it skips none for long.
fn is_read_anyway(rule: &LoadBalancerRuleId, depth: Depth) -> bool {
    match depth {
        Depth::Quick => false,
        Depth::Thorough => true,
        Depth::Turn { round, of } => {
            let sum = rule
                .as_str()
                .bytes()
                .fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
            let of = of.max(1);
            sum % of == round % of
        }
    }
}

/// Whether the record's digest spares the read: it is believed only for that very rule, in state
/// Active, and only if it is the digest of exactly the wanted members.
fn vouched(
    service: &Service,
    standing: &Standing<'_>,
    rule: &LoadBalancerRule,
    backends: &Backends,
) -> bool {
    let believed =
        MemberDigest { rule: rule.id.short().to_owned(), digest: backends.digest.clone() };
    standing.basis == Basis::Record
        && rule.state == RuleState::Active
        && !backends.vms.is_empty()
        && recorded(service, port_of(rule)) == Some(&believed)
}

/// The recorded digest of a port.
pub(super) fn recorded(service: &Service, port: Port) -> Option<&MemberDigest> {
    service.recorded.record.as_ref()?.members.get(&port)
}

fn wanted(
    planner: &Planner<'_>,
    backends: &Backends,
    current: &BTreeSet<VirtualMachineId>,
) -> BTreeSet<VirtualMachineId> {
    if all_kept(planner, backends) {
        return current.clone();
    }
    let doubtful = |id: &&VirtualMachineId| {
        planner.machines.doubtful.contains(*id)
            || backends.without_nic.values().any(|machine| machine == *id)
    };
    let kept = current.iter().filter(doubtful).cloned();
    backends.vms.iter().cloned().chain(kept).collect()
}
