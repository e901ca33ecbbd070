//! The Lease of leader election, as requests.

use std::time::Duration;

use ccm_core::election::{Action, Answer, Lease, LeaseRecord};
use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tracing::debug;

/// The Lease of one name.
pub struct LeaseLock {
    leases: Api<LeaseObject>,
    name: String,
    namespace: String,
    timeout: Duration,
}

impl LeaseLock {
    /// The Lease `namespace/name`; a request about it takes no longer than `timeout`.
    pub fn new(client: Client, namespace: &str, name: &str, timeout: Duration) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            timeout,
        }
    }

    /// Carries out what an election asks for; `None` if that is no request.
    pub async fn request(&self, action: Action) -> Option<Answer> {
        let params = PostParams::default();
        let answer = match action {
            Action::Get => self.bounded(self.leases.get(&self.name)).await,
            Action::Create(record) => {
                let lease = self.object(record, None);
                self.bounded(self.leases.create(&params, &lease)).await
            }
            Action::Update(record, version) => {
                let lease = self.object(record, Some(version));
                self.bounded(self.leases.replace(&self.name, &params, &lease)).await
            }
            Action::Wait(_) | Action::Lost | Action::Released => return None,
        };
        Some(answer)
    }

    async fn bounded(&self, request: impl Future<Output = kube::Result<LeaseObject>>) -> Answer {
        match tokio::time::timeout(self.timeout, request).await {
            Ok(Ok(lease)) => Answer::Lease(read(lease)),
            Ok(Err(Error::Api(status))) if status.code == 404 => Answer::NotFound,
            Ok(Err(Error::Api(status))) if status.code == 409 => Answer::Conflict,
            Ok(Err(error)) => {
                let error = super::call_error("leases", &error);
                debug!(%error, lease = self.name, "the Lease could not be read or written");
                Answer::Failed
            }
            Err(_) => {
                debug!(lease = self.name, timeout = ?self.timeout, "no answer about the Lease");
                Answer::Failed
            }
        }
    }

    fn object(&self, record: LeaseRecord, version: Option<String>) -> LeaseObject {
        let LeaseRecord { holder, duration_seconds, acquired, renewed, transitions } = record;
        LeaseObject {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder),
                lease_duration_seconds: Some(duration_seconds),
                acquire_time: acquired.map(MicroTime),
                renew_time: renewed.map(MicroTime),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

fn read(lease: LeaseObject) -> Lease {
    let spec = lease.spec.unwrap_or_default();
    Lease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        },
        version: lease.metadata.resource_version.unwrap_or_default(),
    }
}
