//! What is written on the Service, and when: the order between the two sides is where addresses
//! get lost.
//!
//! A new Service takes three writes: finalizer and intent; verdict and record with the openings to
//! come, intent removed; status and member digests. A later change takes one before the first
//! CloudStack step that needs it, and one at the end. Adoption takes one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ClusterId, LoadBalancerRuleId, ServiceUid};
use crate::model::record::{Record, Verdict};
use crate::model::service::{Ingress, Lifecycle, LoadBalancerSpec, Service};
use crate::plan::action::{
    AddressDraft, Edit, FinalizerChange, IngressDraft, IpMode, PatchService, PlannedPatch,
    RecordDraft, Ref, ResolvedAddress,
};

/// A record as it is planned.
pub(super) type PlannedRecord = RecordDraft<Ref<ResolvedAddress>, Ref<LoadBalancerRuleId>>;

/// A patch that changes nothing.
pub(super) fn empty(service: &Service) -> PlannedPatch {
    PlannedPatch::nothing(service.key.clone(), service.uid.clone())
}

/// Whether a patch changes anything.
pub(super) fn is_empty(patch: &PlannedPatch) -> bool {
    let PatchService { service: _, uid: _, finalizer, verdict, intents, record, ingress } = patch;
    finalizer.is_none()
        && verdict.is_keep()
        && intents.is_keep()
        && record.is_keep()
        && ingress.is_none()
}

/// The finalizer, where it is missing.
pub(super) fn finalizer(service: &Service) -> Option<FinalizerChange> {
    (!service.recorded.finalizer).then_some(FinalizerChange::Add)
}

/// The verdict, where it differs.
pub(super) fn verdict(service: &Service, ours: bool) -> Edit<Verdict> {
    let wanted = if ours { Verdict::Ours } else { Verdict::User };
    if service.recorded.verdict == Some(wanted) { Edit::Keep } else { Edit::Set(wanted) }
}

/// The record, where it differs.
pub(super) fn record(service: &Service, draft: &PlannedRecord) -> Edit<PlannedRecord> {
    let same = service.recorded.record.as_ref().is_some_and(|found| {
        let written = settled(draft, &found.cluster, &found.service);
        // Digests may have been left out for want of room: the written text decides.
        written.is_some_and(|written| written.to_text() == found.to_text())
    });
    if same { Edit::Keep } else { Edit::Set(draft.clone()) }
}

/// Removes everything of ours, the status too. What stands in the status of a Service that has a
/// class by now is the other controller's: the API server empties it when the type changes.
pub(super) fn farewell(service: &Service) -> PlannedPatch {
    let recorded = &service.recorded;
    let published = !recorded.ingress.is_empty() && service.lifecycle != Lifecycle::OtherClass;
    PlannedPatch {
        service: service.key.clone(),
        uid: service.uid.clone(),
        finalizer: recorded.finalizer.then_some(FinalizerChange::Remove),
        verdict: remove(recorded.verdict.is_some()),
        intents: remove(!recorded.intents.is_empty() || recorded.of_another_service),
        record: remove(recorded.record.is_some() || recorded.of_another_service),
        ingress: published.then_some(IngressDraft::Empty),
    }
}

/// The removal of what is there.
pub(super) fn remove<T>(is_there: bool) -> Edit<T> {
    if is_there { Edit::Remove } else { Edit::Keep }
}

/// The status that a served Service publishes.
pub(super) fn ingress(
    spec: &LoadBalancerSpec,
    address: Ref<ResolvedAddress>,
) -> IngressDraft<Ref<ResolvedAddress>> {
    match &spec.hostname {
        Some(hostname) => IngressDraft::Hostname(hostname.clone()),
        None => {
            let ip_mode = if spec.proxy_protocol { IpMode::Proxy } else { IpMode::Vip };
            IngressDraft::Address { address, ip_mode }
        }
    }
}

/// Whether the status already says so. The API server fills in VIP where no ipMode was given.
pub(super) fn is_published(service: &Service, wanted: &IngressDraft<Ref<ResolvedAddress>>) -> bool {
    let wanted = match wanted {
        IngressDraft::Empty => return service.recorded.ingress.is_empty(),
        IngressDraft::Hostname(hostname) => {
            Ingress { ip: None, hostname: Some(hostname.clone()), ip_mode: None }
        }
        IngressDraft::Address { address: Ref::Pending(_), ip_mode: _ } => return false,
        IngressDraft::Address { address: Ref::Existing(address), ip_mode } => Ingress {
            ip: Some(address.address.to_string()),
            hostname: None,
            ip_mode: Some(ip_mode.as_str().to_owned()),
        },
    };
    service.recorded.ingress == [wanted]
}

/// The record that a draft becomes; `None` while it names what is yet to be made.
fn settled(draft: &PlannedRecord, cluster: &ClusterId, service: &ServiceUid) -> Option<Record> {
    let record = crate::exec::resolve::record(draft.clone(), &BTreeMap::new())?;
    Some(record.to_record(cluster, service))
}

/// A record without anything but addresses.
pub(super) fn record_of(addresses: Vec<AddressDraft<Ref<ResolvedAddress>>>) -> PlannedRecord {
    RecordDraft {
        addresses,
        openings: BTreeSet::new(),
        acl: BTreeSet::new(),
        firewall: None,
        members: BTreeMap::new(),
    }
}
