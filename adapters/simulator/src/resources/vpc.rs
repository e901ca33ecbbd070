//! Virtual private clouds.

use std::collections::BTreeMap;

use crate::answer::Answer;
use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may};
use crate::error::ApiError;
use crate::lists::{Scope, TagFilter, answer, contains, equal, keyword_matches};
use crate::object::{Field, Object};
use crate::resources::network::Network;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::resources::{network, services};
use crate::table::{Key, Row};
use crate::versions::Feature;

/// A VPC. Its tiers are networks that name it.
#[derive(Debug, Clone)]
pub(crate) struct Vpc {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) display_text: String,
    pub(crate) owner: Owner,
    pub(crate) cidr: String,
    pub(crate) created: String,
    pub(crate) services: Vec<String>,
    pub(crate) offering_id: String,
    pub(crate) offering_name: String,
    /// Whether one address may serve rules of several tiers (4.23, by offering).
    pub(crate) conserve_mode: bool,
    pub(crate) extra: Extra,
}

impl Row for Vpc {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Vpc {
    /// Whether its offering was made here. Such a one has the virtual router alone, where the
    /// default offering also has the internal provider of load balancing (observed).
    fn is_of_made_offering(&self, cloud: &Cloud) -> bool {
        cloud.vpc_offerings.find(&self.offering_id).is_some()
    }

    /// Whether one of its addresses may serve rules of several tiers.
    pub(crate) fn conserves(&self, cloud: &Cloud) -> bool {
        self.conserve_mode && cloud.version.has(Feature::VpcConserveMode)
    }

    /// Whether its public IP addresses have a firewall (4.23, by offering).
    pub(crate) fn has_firewall(&self, cloud: &Cloud) -> bool {
        cloud.version.has(Feature::VpcFirewall)
            && self.services.iter().any(|service| service == "Firewall")
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Vpc)),
    may("name", Kind::Text),
    may("displaytext", Kind::Text),
    may("cidr", Kind::Text),
    may("state", Kind::Text),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("supportedservices", Kind::List),
];

/// listVPCs, newest first; name and display text are substrings. Renders every tier.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let services = params.list("supportedservices").unwrap_or_default();
    let rows: Vec<_> = cloud
        .vpcs
        .iter()
        .rev()
        .filter(|(key, row)| {
            scope.covers(row.owner)
                && params.names("id", *key)
                && params.is_in_zone()
                && params.agrees("name", |name| contains(&row.name, name))
                && params.agrees("displaytext", |text| contains(&row.display_text, text))
                && params.agrees("cidr", |cidr| row.cidr == cidr)
                && params.agrees("state", |state| equal("Enabled", state))
                && services.iter().all(|service| row.services.contains(service))
                && keyword_matches(call, &[&row.name, &row.display_text])
                && tags.passes(cloud, ResourceType::Vpc, &row.id)
        })
        .collect();
    let tiers = tiers(cloud);
    answer(cloud, call, "vpc", rows, |(key, row)| rendered(cloud, key, row, &tiers))
}

pub(crate) fn json<'a>(cloud: &'a Cloud, key: Key<Vpc>, row: &'a Vpc) -> Object<'a> {
    rendered(cloud, key, row, &tiers(cloud))
}

/// The tiers of every VPC, oldest first.
fn tiers(cloud: &Cloud) -> BTreeMap<Key<Vpc>, Vec<&Network>> {
    let mut tiers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (_, network) in cloud.networks.iter() {
        if let Some(vpc) = network.vpc() {
            tiers.entry(vpc).or_default().push(network);
        }
    }
    tiers
}

fn rendered<'a>(
    cloud: &'a Cloud,
    key: Key<Vpc>,
    row: &'a Vpc,
    tiers: &BTreeMap<Key<Vpc>, Vec<&'a Network>>,
) -> Object<'a> {
    let tiers: Field<'_> =
        tiers.get(&key).into_iter().flatten().map(|tier| network::json(cloud, tier)).collect();
    Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .with("state", "Enabled")
        .with("cidr", row.cidr.as_str())
        .with("service", services::of_vpc(&row.services, !row.is_of_made_offering(cloud)))
        .with("vpcofferingid", row.offering_id.as_str())
        .with("vpcofferingname", row.offering_name.as_str())
        .with("vpcofferingconservemode", row.conserve_mode)
        .with("network", tiers)
        .with("networkdomain", "cs1cloud.internal")
        .with("distributedvpcrouter", false)
        .with("hasannotations", false)
        .with("publicmtu", 1500)
        .with("redundantvpcrouter", false)
        .with("regionlevelvpc", false)
        .with("restartrequired", false)
        .with("created", row.created.as_str())
        .with("tags", inline_tags(cloud, ResourceType::Vpc, &row.id))
        .merge(cloud.zone_fields())
        .merge(cloud.owner_fields(row.owner))
        .merge_extra(&row.extra)
        .of_release("vpc", &cloud.version)
}

/// How error texts show a VPC.
pub(crate) fn text(key: Key<Vpc>, row: &Vpc) -> String {
    format!(r#"VPC {{"id":{},"name":"{}","uuid":"{}"}}"#, key.number(), row.name, row.id)
}
