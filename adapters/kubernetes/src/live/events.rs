//! Events of the core group, which the stock role grants.

use std::time::Duration;

use ccm_core::event::correlate::{Decision, ObjectRef, Recorded};
use ccm_core::exec::error::CallError;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;

use super::call_error;

/// How often an event is tried when the API server can't be reached, and how long is waited.
const TRIES: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// Writes events to the API server.
pub struct EventWriter {
    client: Client,
    host: String,
}

impl EventWriter {
    /// A writer that names `host` as where its events come from.
    pub fn new(client: Client, host: impl Into<String>) -> Self {
        Self { client, host: host.into() }
    }

    /// Carries out a decision. An API server that can't be reached is tried again for a while; one
    /// that refuses is not.
    ///
    /// # Errors
    /// [`CallError`] if the event is not there in the end.
    pub async fn write(&self, about: &ObjectRef, decision: &Decision) -> Result<(), CallError> {
        let mut tries = 1;
        loop {
            match self.write_once(about, decision).await {
                Ok(()) => return Ok(()),
                Err(error @ Error::Api(_)) => return Err(call_error("create events", &error)),
                Err(error) if tries >= TRIES => return Err(call_error("create events", &error)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tries += 1;
        }
    }

    async fn write_once(&self, about: &ObjectRef, decision: &Decision) -> kube::Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), about.event_namespace());
        match decision {
            Decision::Drop => Ok(()),
            Decision::Create(recorded) => self.create(&events, about, recorded).await,
            Decision::Patch(recorded) => match patch(&events, recorded).await {
                Err(Error::Api(status)) if status.code == 404 => {
                    self.create(&events, about, recorded).await
                }
                patched => patched,
            },
        }
    }

    async fn create(
        &self,
        events: &Api<Event>,
        about: &ObjectRef,
        recorded: &Recorded,
    ) -> kube::Result<()> {
        let event = self.object(about, recorded);
        events.create(&PostParams::default(), &event).await.map(drop)
    }

    fn object(&self, about: &ObjectRef, recorded: &Recorded) -> Event {
        let Recorded { name, event, count, first, last } = recorded;
        let namespace = about.event_namespace().to_owned();
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(about.api_version.to_owned()),
                kind: Some(about.kind.to_owned()),
                namespace: set(&about.namespace),
                name: set(&about.name),
                uid: set(&about.uid),
                ..ObjectReference::default()
            },
            reason: Some(event.reason.to_owned()),
            message: Some(event.message.clone()),
            type_: Some(event.kind.as_str().to_owned()),
            source: Some(EventSource {
                component: Some(event.component.as_str().to_owned()),
                host: set(&self.host),
            }),
            reporting_component: Some(event.component.as_str().to_owned()),
            reporting_instance: Some(self.host.clone()),
            count: i32::try_from(*count).ok(),
            first_timestamp: Some(Time(*first)),
            last_timestamp: Some(Time(*last)),
            ..Event::default()
        }
    }
}

async fn patch(events: &Api<Event>, recorded: &Recorded) -> kube::Result<()> {
    let Recorded { name, event, count, first: _, last } = recorded;
    let body = json!({
        "count": count, "lastTimestamp": Time(*last), "message": event.message,
    });
    events.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.map(drop)
}
