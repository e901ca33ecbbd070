//! What all list commands share: whose objects are seen, which page, and the filters by keyword and
//! tag.

use std::collections::BTreeSet;

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::Call;
use crate::error::ApiError;
use crate::object::Object;
use crate::params::Params;
use crate::resources::domain::Domain;
use crate::resources::tag::{ResourceType, tags_of};
use crate::table::Key;

/// The owners whose objects a list shows (`AccountManagerImpl.buildACLSearchParameters`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    owners: BTreeSet<Owner>,
}

impl Scope {
    /// Users see their own objects; with `projectid` a project's; with `-1` those of all their
    /// projects. Admins see further: by id, with `listall`, or in the domain that they name.
    ///
    /// # Errors
    /// 431 for an account that is not there, 531 for one, a project or a domain out of reach.
    pub(crate) fn of(cloud: &Cloud, call: &Call) -> Result<Self, ApiError> {
        Self::read(cloud, call, call.params.text("id").is_some())
    }

    /// The same for networks, which nobody finds by id who would not find them without.
    pub(crate) fn of_networks(cloud: &Cloud, call: &Call) -> Result<Self, ApiError> {
        Self::read(cloud, call, false)
    }

    fn read(cloud: &Cloud, call: &Call, by_id: bool) -> Result<Self, ApiError> {
        let params = &call.params;
        let domain = params.key::<Domain>("domainid");
        if domain.is_some_and(|domain| !cloud.sees_domain(call.caller, domain)) {
            return Err(ApiError::permission());
        }
        let owners = match (params.filled("account"), params.text("projectid")) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("Account and projectId can't be specified together"));
            }
            (Some(name), None) => BTreeSet::from([named_account(cloud, call, domain, name)?]),
            (None, Some("-1")) => of_all_projects(cloud, call),
            (None, Some(_)) => BTreeSet::from([named_project(cloud, call)?]),
            (None, None) => of_caller(cloud, call, domain, by_id),
        };
        Ok(Self { owners })
    }

    pub(crate) fn covers(&self, owner: Owner) -> bool {
        self.owners.contains(&owner)
    }
}

/// `account`, in the domain named or else in the caller's.
fn named_account(
    cloud: &Cloud,
    call: &Call,
    domain: Option<Key<Domain>>,
    name: &str,
) -> Result<Owner, ApiError> {
    let own = cloud.domain_of(Owner::Account(call.caller));
    let domain = domain.or(own).ok_or_else(ApiError::permission)?;
    let owner = cloud.account_in(domain, name)?;
    if cloud.may_use(call.caller, owner) { Ok(owner) } else { Err(ApiError::permission()) }
}

fn named_project(cloud: &Cloud, call: &Call) -> Result<Owner, ApiError> {
    let owner = call.params.key("projectid").map(Owner::Project);
    owner.filter(|owner| cloud.may_use(call.caller, *owner)).ok_or_else(ApiError::permission)
}

fn of_all_projects(cloud: &Cloud, call: &Call) -> BTreeSet<Owner> {
    let own = Owner::Account(call.caller);
    let mut owners: BTreeSet<Owner> = cloud
        .owners()
        .filter(|owner| match owner {
            Owner::Project(_) => cloud.may_use(call.caller, *owner),
            Owner::Account(_) => lists_all(call) && cloud.administers(call.caller, *owner),
        })
        .collect();
    if owners.is_empty() || lists_all(call) {
        owners.insert(own);
    }
    owners
}

/// Without any of the filters: one's own, or all that an admin asks for. Objects of projects are
/// among those only by id.
fn of_caller(
    cloud: &Cloud,
    call: &Call,
    domain: Option<Key<Domain>>,
    by_id: bool,
) -> BTreeSet<Owner> {
    let asks_further = domain.is_some() || by_id || lists_all(call);
    let recursive = domain.is_none() || call.params.flag("isrecursive") == Some(true);
    let is_in = |owner: Owner| {
        let inner = cloud.domain_of(owner);
        domain.is_none_or(|domain| {
            inner == Some(domain)
                || recursive && inner.is_some_and(|inner| cloud.is_below(inner, domain))
        })
    };
    cloud
        .owners()
        .filter(|owner| {
            let is_own = *owner == Owner::Account(call.caller);
            let is_asked = asks_further
                && cloud.administers(call.caller, *owner)
                && (by_id || matches!(owner, Owner::Account(_)));
            (is_own || is_asked) && is_in(*owner)
        })
        .collect()
}

fn lists_all(call: &Call) -> bool {
    call.params.flag("listall") == Some(true)
}

/// The answer of a list: the page that was asked for under `key`, and how many rows there are in
/// all. No other row is rendered.
pub(crate) fn answer<'a, T: Clone>(
    cloud: &Cloud,
    call: &Call,
    key: &str,
    rows: Vec<T>,
    render: impl Fn(T) -> Object<'a>,
) -> Result<Answer, ApiError> {
    let page = Page::read(&call.params, cloud.page_limit)?;
    let count = rows.len();
    let counts_only = call.params.flag("retrieveonlyresourcecount") == Some(true);
    let size = if counts_only { 0 } else { page.size };
    let first = cloud.page_fault.map_or(page.first, |fault| fault.first(page.first));
    let shown = rows.into_iter().skip(first).take(size).collect();
    Ok(whole_answer(cloud, key, count, shown, render))
}

/// The answer of a list without pages: `shown` under `key`, of `count` rows. Nothing of nothing.
pub(crate) fn whole_answer<'a, T: Clone>(
    cloud: &Cloud,
    key: &str,
    count: usize,
    mut shown: Vec<T>,
    render: impl Fn(T) -> Object<'a>,
) -> Answer {
    if count == 0 {
        return Object::new().into();
    }
    if let Some(fault) = cloud.page_fault {
        fault.spoil(&mut shown);
    }
    Answer::list(count, key, shown, render)
}

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    first: usize,
    size: usize,
}

impl Page {
    /// Without page parameters a list is cut silently at the limit; a size of -1 without page lifts
    /// it.
    fn read(params: &Params, limit: usize) -> Result<Self, ApiError> {
        match (params.number("page"), params.number("pagesize")) {
            (None, None) => Ok(Self { first: 0, size: limit }),
            (Some(_), Some(-1)) => Err(ApiError::invalid(
                "Can't specify page parameter when pagesize is -1 (Unlimited)",
            )),
            (None, Some(-1)) => Ok(Self { first: 0, size: usize::MAX }),
            (_, Some(size)) if usize::try_from(size).is_ok_and(|size| size > limit) => {
                Err(ApiError::invalid(format!(
                    "Page size can't exceed max allowed page size value: {limit}"
                )))
            }
            (None, Some(_)) => Err(ApiError::parameter(
                "\"page\" parameter is required when \"pagesize\" is specified",
            )),
            (Some(_), None) => Err(ApiError::parameter(
                "\"pagesize\" parameter is required when \"page\" is specified",
            )),
            (Some(page), Some(size)) => {
                let size = usize::try_from(size).unwrap_or(0);
                let page = usize::try_from(page).unwrap_or(1).max(1);
                Ok(Self { first: (page - 1).saturating_mul(size), size })
            }
        }
    }
}

/// Whether a text equals another as the database compares: without regard to letter case.
pub(crate) fn equal(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The `keyword` filter: `LIKE %x%`, in which `%` and `_` of the value are wildcards. Absent or
/// empty, all pass.
pub(crate) fn keyword_matches(call: &Call, texts: &[&str]) -> bool {
    match call.params.text("keyword") {
        None | Some("") => true,
        Some(keyword) => texts.iter().any(|text| contains(text, keyword)),
    }
}

/// Whether a text is like `%pattern%`.
pub(crate) fn contains(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let pattern: Vec<char> = format!("%{}%", pattern.to_lowercase()).chars().collect();
    like(&text, &pattern)
}

fn like(text: &[char], pattern: &[char]) -> bool {
    // `ends[i]`: the pattern so far matches the first i characters.
    let mut ends = vec![false; text.len() + 1];
    if let Some(empty) = ends.first_mut() {
        *empty = true;
    }
    for expected in pattern {
        let mut next = Vec::with_capacity(ends.len());
        let mut reached = false;
        let mut before: Option<(bool, char)> = None;
        for (at, here) in ends.iter().enumerate() {
            let matched = match expected {
                '%' => {
                    reached |= here;
                    reached
                }
                '_' => before.is_some_and(|(matched, _)| matched),
                letter => before.is_some_and(|(matched, read)| matched && read == *letter),
            };
            next.push(matched);
            before = text.get(at).map(|read| (*here, *read));
        }
        ends = next;
    }
    ends.last().copied().unwrap_or(false)
}

/// The filter `tags[i].key` and `.value`. Of several pairs one is enough; a pair without value is
/// an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagFilter {
    pairs: Vec<(String, String)>,
}

impl TagFilter {
    pub(crate) fn read(params: &Params) -> Result<Self, ApiError> {
        let mut pairs = Vec::new();
        for fields in params.map("tags").into_iter().flat_map(|map| map.values()) {
            let key = fields.get("key").cloned().unwrap_or_default();
            match fields.get("value") {
                Some(value) => pairs.push((key, value.clone())),
                None => {
                    return Err(ApiError::invalid(format!("No value is passed in for key {key}")));
                }
            }
        }
        Ok(Self { pairs })
    }

    pub(crate) fn passes(&self, cloud: &Cloud, kind: ResourceType, id: &str) -> bool {
        self.pairs.is_empty()
            || tags_of(cloud, kind, id).any(|tag| {
                self.pairs
                    .iter()
                    .any(|(key, value)| equal(&tag.key, key) && equal(&tag.value, value))
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Lab, text};

    #[test]
    fn keyword_is_a_substring_with_live_wildcards() {
        assert!(contains("tNode-1", "node_1"));
        assert!(contains("node-1", ""));
        assert!(contains("node-1", "n%1"));
        assert!(contains("node-1", "E-1"));
        assert!(!contains("node-1", "node-2"));
        assert!(!contains("node", "node_"));
    }

    #[test]
    fn pages_follow_cloudstacks_table() {
        let mut lab = Lab::new();
        let all = lab.column("listNetworks", &[], "name");
        assert_eq!(all, ["nolb", "bare", "allow", "tier", "idle", "iso"]);
        let mut page =
            |params: &[(&str, &str)]| lab.column("listNetworks", params, "name").join(" ");
        assert_eq!(page(&[("page", "2"), ("pagesize", "2")]), "allow tier");
        assert_eq!(page(&[("page", "0"), ("pagesize", "2")]), "nolb bare");
        assert_eq!(page(&[("pagesize", "-1")]), all.join(" "));
        let beyond = lab.ask("listNetworks", &[("page", "9"), ("pagesize", "2")]);
        assert_eq!(beyond, json!({"count": 6}));
        let counted = lab.ask("listNetworks", &[("retrieveonlyresourcecount", "true")]);
        assert_eq!(counted, json!({"count": 6}));
        let nothing = lab.ask("listNetworks", &[("keyword", "nowhere")]);
        assert_eq!(nothing, json!({}));
    }

    #[test]
    fn inconsistent_pages_are_refused() {
        let mut lab = Lab::new();
        let mut class = |params: &[(&str, &str)]| lab.refused("listZones", params).class;
        assert_eq!(class(&[("page", "1")]), Some(9999));
        assert_eq!(class(&[("pagesize", "2")]), Some(9999));
        assert_eq!(class(&[("page", "1"), ("pagesize", "-1")]), Some(4350));
        assert_eq!(class(&[("page", "1"), ("pagesize", "501")]), Some(4350));
    }

    #[test]
    fn lists_are_cut_at_the_limit_while_count_tells_the_truth() {
        let mut lab = Lab::new();
        lab.simulator.cloud.page_limit = 4;
        let body = lab.ask("listNetworks", &[]);
        assert_eq!(body["count"], 6);
        assert_eq!(body["network"].as_array().unwrap().len(), 4);
        assert_eq!(lab.rows("listNetworks", &[("pagesize", "-1")]).len(), 6);
    }

    #[test]
    fn objects_of_projects_need_the_project_even_by_id() {
        let mut lab = Lab::new();
        let vm = lab.id("listVirtualMachines", "pnode-1");
        let project = lab.id("listProjects", "web");
        let mut found = |params: &[(&str, &str)]| {
            let mut all = vec![("id", vm.as_str())];
            all.extend(params);
            lab.rows("listVirtualMachines", &all).len()
        };
        assert_eq!(found(&[]), 0);
        assert_eq!(found(&[("listall", "true")]), 0);
        assert_eq!(found(&[("projectid", &project)]), 1);
        assert_eq!(found(&[("projectid", "-1")]), 1);
        let own = lab.rows("listVirtualMachines", &[("projectid", "-1"), ("listall", "true")]);
        assert_eq!(own.len(), 4);
    }

    #[test]
    fn projects_of_others_do_not_exist_for_a_caller() {
        let mut lab = Lab::new();
        let project = lab.id("listProjects", "web");
        let refused = lab.by("other").refused("listNetworks", &[("projectid", &project)]);
        assert_eq!((refused.code, refused.root.as_str()), (432, "errorresponse"));
        assert!(refused.text.contains(&format!("in project [{project}]")), "{}", refused.text);
    }

    #[test]
    fn each_role_sees_what_its_filters_ask_for() {
        let mut lab = Lab::new();
        let vm = lab.id("listVirtualMachines", "node-1");
        let project = lab.id("listProjects", "web");
        let branch = lab.by("root").rows("listUserKeys", &[("listall", "true")]);
        let branch = branch.iter().find(|pair| pair["username"] == "remote").unwrap();
        let branch = text(&branch["domainid"]);
        let all = "node-1 node-2 tnode-1 stranger";
        let mut check = |caller: &'static str, params: &[(&str, &str)], expected: &str| {
            let names = lab.by(caller).column("listVirtualMachines", params, "name").join(" ");
            assert_eq!(names, expected, "{caller} {params:?}");
        };
        let listall = ("listall", "true");
        check("other", &[listall], "stranger");
        check("root", &[], "");
        check("root", &[listall], &format!("{all} away"));
        check("root", &[("id", &vm)], "node-1");
        check("root", &[("projectid", &project)], "pnode-1");
        check("root", &[("projectid", "-1")], "pnode-1");
        check("root", &[("projectid", "-1"), listall], &format!("pnode-1 {all} away"));
        check("root", &[("account", "other")], "stranger");
        check("root", &[("domainid", &branch)], "away");
        check("boss", &[listall], "away");
        check("boss", &[("id", &vm)], "");
        check("boss", &[("account", "remote")], "away");
    }

    #[test]
    fn accounts_projects_and_domains_out_of_reach_are_refused() {
        let mut lab = Lab::new();
        let project = lab.id("listProjects", "web");
        let list = "listVirtualMachines";
        assert_eq!(lab.refused(list, &[("account", "other")]).code, 531);
        assert_eq!(lab.refused(list, &[("account", "nobody")]).code, 431);
        let both = [("account", "prod"), ("projectid", project.as_str())];
        assert_eq!(lab.refused(list, &both).code, 431);
        lab.by("boss");
        assert_eq!(lab.refused(list, &[("projectid", &project)]).code, 531);
        let root = text(&lab.by("root").rows("listUserKeys", &[])[0]["domainid"]);
        assert_eq!(lab.by("boss").refused(list, &[("domainid", &root)]).code, 531);
    }

    #[test]
    fn tag_pairs_are_alternatives() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        lab.rule("81", &[]);
        let tag = [
            ("resourcetype", "loadbalancer"),
            ("resourceids", &*rule),
            ("tags[0].key", "Owner"),
            ("tags[0].value", "Me"),
        ];
        lab.run("createTags", &tag);
        let mut found = |params: &[(&str, &str)]| lab.rows("listLoadBalancerRules", params).len();
        assert_eq!(found(&[("tags[0].key", "owner"), ("tags[0].value", "me")]), 1);
        assert_eq!(
            found(&[
                ("tags[0].key", "x"),
                ("tags[0].value", "y"),
                ("tags[3].key", "owner"),
                ("tags[3].value", "me")
            ]),
            1
        );
        assert_eq!(found(&[("tags[0].key", "owner"), ("tags[0].value", "you")]), 0);
        assert_eq!(
            lab.refused("listLoadBalancerRules", &[("tags[0].key", "owner")]).text,
            "No value is passed in for key owner"
        );
    }
}
