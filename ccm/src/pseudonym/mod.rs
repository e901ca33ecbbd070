//! Replaces everything in a snapshot that tells whose it is: names, ids, addresses, free texts. The
//! plan stays the same but for those names.
//!
//! - The same text becomes the same pseudonym everywhere, also inside rule names, descriptions and
//!   records.
//! - Pseudonyms sort as what they stand for, since the lowest id and the first name decide ties.
//! - Addresses keep their common prefixes, so what contained what still does. 0.0.0.0/0 stays.
//! - What is derived from others (digests of members and of source lists, uids of manifests
//!   without one) is derived again.
//! - Annotations and labels that planning does not look at are left out.
//!
//! Left as they are: times, ports, protocols, states, versions, the capabilities of networks.
//! A list of sources can get longer or shorter by a few characters, which matters only next to the
//! limit of 255.
//!
//! Two passes over the snapshot: the first one collects, then numbers are given, then the second
//! one replaces.

mod addresses;
mod cloud;
mod kubernetes;
mod names;
mod texts;

use anyhow::{Result, bail};
use ccm_cloudstack::{Runtime as _, TokioRuntime};
use ccm_core::model::policy::Policy;
use ccm_core::parse::derived_uid;

use crate::ports::Objects;
use crate::saved::Snapshot;
use addresses::Addresses;
use names::{Kind, Names};
use texts::Derived;

/// How often another key is tried when an address became one that occurs in the original.
const ATTEMPTS: usize = 16;

/// The same snapshot under pseudonyms, which are drawn anew each time.
///
/// # Errors
/// If no pseudonyms can be found, or one of ours does not have the form of what it stands for
/// (please report that).
pub fn replace(snapshot: &Snapshot) -> Result<Snapshot> {
    for _ in 0..ATTEMPTS {
        let mut pass = Pass {
            names: Names::default(),
            addresses: Addresses::new(&TokioRuntime.fresh_uuid()),
            derived: Derived::of(snapshot),
            policy: snapshot.policy.clone(),
        };
        pass.snapshot(snapshot)?;
        pass.names.number();
        pass.derive_uids(&snapshot.objects)?;
        let replaced = pass.snapshot(snapshot)?;
        if !pass.addresses.collide() {
            return Ok(replaced);
        }
    }
    bail!("no pseudonyms were found that are no addresses of the snapshot; try again");
}

/// One pass over a snapshot.
struct Pass {
    names: Names,
    addresses: Addresses,
    derived: Derived,
    /// The original.
    policy: Policy,
}

impl Pass {
    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<Snapshot> {
        let Snapshot { kind: _, format_version: _, policy, objects, cloud } = snapshot;
        let policy = self.policy(policy)?;
        let objects = self.objects(objects)?;
        Ok(Snapshot::new(policy, objects, self.cloud(cloud)?))
    }

    fn policy(&mut self, policy: &Policy) -> Result<Policy> {
        let cluster_name = self.cluster_name(&policy.cluster_name);
        Ok(Policy {
            cluster_id: self.names.typed(Kind::Cluster, &policy.cluster_id)?,
            cluster_name,
            project: self.names.optional(policy.project.as_ref())?,
            ..policy.clone()
        })
    }

    /// The default says nothing about anybody.
    fn cluster_name(&mut self, name: &str) -> String {
        if name == "kubernetes" { name.to_owned() } else { self.names.take(Kind::Cluster, name) }
    }

    /// The uid of a manifest without one follows from cluster, namespace and name.
    fn derive_uids(&mut self, objects: &Objects) -> Result<()> {
        let old_cluster = self.policy.cluster_id.clone();
        let new_cluster = self.names.typed(Kind::Cluster, &old_cluster)?;
        for service in objects.services.iter().filter(|service| service.uid.is_none()) {
            let old = derived_uid(&old_cluster, &kubernetes::key(service));
            let new = derived_uid(&new_cluster, &self.service_key(&kubernetes::key(service)));
            self.names.fix(Kind::Uid, old.as_str(), new.as_str());
        }
        Ok(())
    }
}
