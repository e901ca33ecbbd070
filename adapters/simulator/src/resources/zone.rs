//! The zone and what the server tells about itself.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::ApiError;
use crate::lists::{TagFilter, answer, equal, keyword_matches};
use crate::object::{Object, date};
use crate::resources::tag::{ResourceType, full_tags};

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Zone)),
    since("ids", Kind::Ids(Entity::Zone), "4.19.0"),
    may("name", Kind::Text),
    may("networktype", Kind::Text),
    may("available", Kind::Flag),
];

/// listZones. Users do not see a disabled one. A keyword counts only when neither id nor name is given.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let zone = &cloud.zone;
    let id = call.params.key::<()>("id").is_none_or(|id| id.number() == 1)
        && call.params.keys::<()>("ids").is_none_or(|ids| !ids.is_empty());
    let named = call.params.text("name");
    let by_keyword = call.params.text("id").is_none() && named.is_none();
    let tags = TagFilter::read(&call.params)?;
    let is_user = !cloud.administers(call.caller, Owner::Account(call.caller));
    let shown = id
        && (zone.enabled || !is_user)
        && named.is_none_or(|name| equal(&zone.name, name))
        && call.params.agrees("networktype", |kind| equal("Advanced", kind))
        && (!by_keyword || keyword_matches(call, &[&zone.name]))
        && tags.passes(cloud, ResourceType::Zone, &zone.id);
    let rows = if shown { vec![zone] } else { Vec::new() };
    answer(cloud, call, "zone", rows, |zone| {
        Object::new()
            .with("id", zone.id.as_str())
            .with("name", zone.name.as_str())
            .with("networktype", "Advanced")
            .with("allocationstate", if zone.enabled { "Enabled" } else { "Disabled" })
            .with("securitygroupsenabled", false)
            .with("localstorageenabled", false)
            .with("dhcpprovider", "VirtualRouter")
            .with("type", "Core")
            .with("allowuserspecifyvrmtu", false)
            .with("asnrange", "")
            .with("gputotal", 0)
            .with("gpuused", 0)
            .with("hasannotations", false)
            .with("ismultiarch", false)
            .with("isnsxenabled", false)
            .with("routedmodeenabled", true)
            .with("routerprivateinterfacemaxmtu", 1500)
            .with("routerpublicinterfacemaxmtu", 1500)
            .with("tags", full_tags(cloud, ResourceType::Zone, &zone.id))
            .merge_extra(&zone.extra)
            .of_release("zone", &cloud.version)
    })
}

pub(crate) const LIST_SERVERS_PARAMS: &[Param] = &[
    may("id", Kind::Text),
    may("name", Kind::Text),
    since("peers", Kind::Flag, "4.20.1"),
    since("version", Kind::Text, "4.20.3"),
];

/// listManagementServers and listManagementServersMetrics: the one server.
pub(crate) fn list_servers(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let version = cloud.version.to_string();
    let shown = call.params.agrees("id", |id| equal(&cloud.server_id, id))
        && call.params.agrees("name", |name| equal(SERVER_NAME, name))
        && call.params.agrees("version", |asked| equal(&version, asked));
    let rows = if shown { vec![version] } else { Vec::new() };
    answer(cloud, call, "managementserver", rows, |version| {
        Object::new()
            .with("id", cloud.server_id.as_str())
            .with("name", SERVER_NAME)
            .with("state", "Up")
            .with("version", version)
            .with("lastserverstart", date(cloud.started))
            .with("serviceip", "127.0.0.1")
            .with("ipaddress", "127.0.0.1")
            .with("agents", json!([]))
            .with("agentscount", 0)
            .with("lastagents", json!([]))
            .with("pendingjobscount", 0)
    })
}

/// Name of the one management server.
const SERVER_NAME: &str = "localhost";

/// listCapabilities: one object instead of a list.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn capabilities(cloud: &Cloud, _: &Call) -> Result<Answer, ApiError> {
    let settings = &cloud.settings;
    let mut capability = known_capabilities(cloud);
    if let (Some(fields), true) = (capability.as_object_mut(), settings.throttling) {
        let interval = settings.throttling_interval.as_secs();
        fields.insert("apilimitinterval".to_owned(), interval.into());
        fields.insert("apilimitmax".to_owned(), settings.throttling_max.into());
    }
    Ok(json!({"capability": capability}).into())
}

fn known_capabilities(cloud: &Cloud) -> Value {
    json!({
        "additionalconfigenabled": false,
        "allowusercreateprojects": true,
        "allowuserexpungerecovervm": false,
        "allowuserexpungerecovervolume": true,
        "allowuserforcestopvm": true,
        "allowuserviewalldomainaccounts": false,
        "allowuserviewdestroyedvm": false,
        "cloudstackversion": cloud.version.to_string(),
        "customdiskofferingmaxsize": 1024,
        "customdiskofferingminsize": 1,
        "customhypervisordisplayname": "Custom",
        "defaultuipagesize": 20,
        "dynamicrolesenabled": true,
        "dynamicscalingenabled": false,
        "instanceleaseenabled": false,
        "instancesdisksstatsretentionenabled": false,
        "instancesdisksstatsretentiontime": 720,
        "instancesstatsretentiontime": 720,
        "instancesstatsuseronly": false,
        "kubernetesclusterexperimentalfeaturesenabled": false,
        "kubernetesserviceenabled": true,
        "kvmsnapshotenabled": true,
        "projectinviterequired": false,
        "regionsecondaryenabled": false,
        "securitygroupsenabled": false,
        "sharedfsvmmincpucount": 2,
        "sharedfsvmminramsize": 1024,
        "snapshotshowchainsize": false,
        "supportELB": "false",
        "userpublictemplateenabled": true,
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    #[test]
    fn root_sees_the_servers_release() {
        let mut lab = Lab::on("4.22.1.0");
        assert_eq!(lab.by("root").column("listManagementServers", &[], "version"), ["4.22.1.0"]);
        assert_eq!(lab.column("listManagementServersMetrics", &[], "state"), ["Up"]);
        assert_eq!(lab.by("boss").refused("listManagementServers", &[]).code, 432);
    }
}
