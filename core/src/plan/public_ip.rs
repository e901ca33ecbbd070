//! Which address a Service is served on. First hit wins: the one it asks for, the one it has, a
//! new one.

use std::net::Ipv4Addr;

use crate::ids::PublicIpId;
use crate::model::record::Verdict;
use crate::model::service::{Lifecycle, Service};
use crate::observe::{AddressState, PublicIpAddress};
use crate::plan::action::ResolvedAddress;
use crate::plan::planner::Planner;
use crate::plan::report::Note;
use crate::plan::standing::{Holding, IntentState, Standing};

/// The address to serve on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// One that is there.
    Held {
        /// What records say of it.
        address: ResolvedAddress,
        /// Whether we release it when the Service goes.
        ours: bool,
    },
    /// One to associate: this one, or any.
    New(Option<Ipv4Addr>),
}

impl Target {
    /// What the Service holds once it is served there, if the address is there.
    pub(super) fn holding(&self) -> Option<Holding> {
        match self {
            Self::Held { address, ours } => {
                let (id, allocated) = (address.id.clone(), address.allocated.clone());
                Some(Holding { id, allocated, ours: *ours })
            }
            Self::New(_) => None,
        }
    }

    /// The address, if it is there.
    pub(super) fn held(&self) -> Option<&ResolvedAddress> {
        match self {
            Self::Held { address, ours: _ } => Some(address),
            Self::New(_) => None,
        }
    }
}

/// Chooses the address.
pub(super) fn choose(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
) -> Result<Target, Note> {
    let target = match service.requested_address {
        Some(ip) => choose_requested(planner, service, standing, ip)?,
        None => choose_own(planner, service, standing),
    };
    let mut intents = standing.intents.iter();
    match (&target, intents.find(|(_, state)| *state == IntentState::Open)) {
        (Target::New(_), Some((intent, _))) => {
            Err(Note::AssociateRunning { job: intent.job.clone() })
        }
        (Target::New(_), None) | (Target::Held { address: _, ours: _ }, _) => Ok(target),
    }
}

/// What of its addresses a Service leaves behind when it is served on `target`.
pub(super) fn replaced<'s>(standing: &'s Standing<'_>, target: &Target) -> Vec<&'s Holding> {
    let current = target.held().map(|address| &address.id);
    standing.addresses.iter().filter(|holding| Some(&holding.id) != current).collect()
}

/// What records say of an address.
pub(super) fn resolved(address: &PublicIpAddress) -> ResolvedAddress {
    ResolvedAddress {
        id: address.id.clone(),
        address: address.address,
        allocated: address.allocated.clone().unwrap_or_default(),
    }
}

fn choose_requested(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    ip: Ipv4Addr,
) -> Result<Target, Note> {
    let found = planner.observed.address_by_ip(ip).ok_or(Note::AddressNotFound { address: ip })?;
    match found.state {
        AddressState::Free => match planner.first_requester(ip, service) {
            Some(first) => Err(Note::AddressTakenFirst { address: ip, service: first.key.clone() }),
            None => Ok(Target::New(Some(ip))),
        },
        AddressState::Allocating | AddressState::Releasing | AddressState::Reserved => {
            Err(Note::AddressNotReady { address: ip, state: format!("{:?}", found.state) })
        }
        AddressState::Allocated => match &found.static_nat {
            Some(machine) => {
                Err(Note::AddressIsStaticNat { address: ip, machine: machine.clone() })
            }
            None => Ok(hold(planner, service, standing, found)),
        },
    }
}

fn choose_own(planner: &Planner<'_>, service: &Service, standing: &Standing<'_>) -> Target {
    let usable = standing
        .addresses
        .iter()
        .find_map(|holding| Some((planner.observed.allocated(&holding.id)?, holding)));
    match usable {
        Some((found, holding)) => Target::Held {
            address: resolved(found),
            ours: match handed_over(planner, service, &found.id) {
                Some(verdict) => verdict == Verdict::Ours,
                None => holding.ours,
            },
        },
        None => Target::New(None),
    }
}

/// The verdict on an address that the Services which leave it hand over to one that stays: the
/// user's, if one of them keeps it.
pub(super) fn handed_over(
    planner: &Planner<'_>,
    service: &Service,
    address: &PublicIpId,
) -> Option<Verdict> {
    let leaving = planner.others_on(address, &service.key).into_iter().filter(|other| {
        let Some(standing) = planner.standing(&other.key) else { return false };
        let moved = standing.addresses.first().is_some_and(|current| current.id != *address);
        let ours = standing.holding(address).is_some_and(|holding| holding.ours);
        ours && (moved || other.lifecycle != Lifecycle::Wanted)
    });
    let verdict = |other: &Service| if other.keeps_address { Verdict::User } else { Verdict::Ours };
    leaving.map(verdict).max()
}

/// A Service that joins an address which another one records as ours records it as ours too.
fn hold(
    planner: &Planner<'_>,
    service: &Service,
    standing: &Standing<'_>,
    found: &PublicIpAddress,
) -> Target {
    let mine = standing.holding(&found.id).is_some_and(|holding| holding.ours);
    let shared = planner.others_on(&found.id, &service.key).into_iter().any(|other| {
        let holding = planner.standing(&other.key).and_then(|s| s.holding(&found.id));
        holding.is_some_and(|holding| holding.ours)
    });
    let kept = handed_over(planner, service, &found.id) == Some(Verdict::User);
    Target::Held { address: resolved(found), ours: (mine || shared) && !kept }
}
