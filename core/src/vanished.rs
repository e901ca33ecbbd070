//! Services that vanished while we ran: gone although our finalizer should have held them, or
//! replaced by another of their name. What they leave in CloudStack is removed by the plan of a
//! deletion, made from the object as it was known last, with its record.
//!
//! After a restart nothing is known of them: what they left are orphans then.

use crate::ids::ServiceKey;
use crate::model::record::FINALIZER;
use crate::model::service::{Lifecycle, Service};
use crate::parse::raw::RawService;

/// Whether a Service, as it was known last, may have something of ours in CloudStack.
pub fn leaves_something(service: &Service) -> bool {
    let recorded = &service.recorded;
    let is_recorded = recorded.record.is_some() || !recorded.intents.is_empty();
    // The finalizer of one with a class is that of whoever serves the class.
    is_recorded || (recorded.finalizer && service.lifecycle != Lifecycle::OtherClass)
}

/// The Service that is planned for in its place: in deletion, held by our finalizer alone, under a
/// key of its own.
#[must_use]
pub fn remains(raw: RawService) -> RawService {
    let key = ServiceKey::new(raw.namespace.as_str(), raw.name.as_str());
    RawService {
        name: key.vanished(raw.uid.as_deref().unwrap_or_default()).name,
        deleting: true,
        finalizers: vec![FINALIZER.to_owned()],
        ..raw
    }
}
