//! The state of the cloud from bulk lists, each read whole or not at all.
//!
//! Independent lists run side by side, as many as the limiter lets through. What the role may not
//! list is [`Listing::Denied`], and not asked for again within the hour.

use std::collections::{BTreeMap, BTreeSet};

use ccm_core::exec::error::CallError;
use ccm_core::ids::{JobId, LoadBalancerRuleId, NetworkAclListId, ProjectId, VirtualMachineId};
use ccm_core::observe::scope::Scope;
use ccm_core::observe::{
    AssociateJob, CloudState, Listing, Network, NetworkAclItem, NetworkAclList, PublicIpAddress,
};
use futures_util::future::try_join_all;
use serde_json::Value;
use tracing::{Instrument, debug, debug_span};

use crate::calls::Params;
use crate::client::Client;
use crate::command::Command;
use crate::decode::address::{address, associate_job};
use crate::decode::machine::{member, virtual_machine};
use crate::decode::network::{acl_item, acl_list, network, vpc};
use crate::decode::rule::{firewall_rule, load_balancer_rule};
use crate::decode::sorted;
use crate::error::{Failure, decode_error, is_unknown_id};
use crate::fields::DecodeError;
use crate::jobs::JobAnswer;
use crate::pages::{PageStep, Pages};
use crate::wire::{Runtime, Transport};

const MACHINES: Command = Command::ListVirtualMachines;
const NETWORKS: Command = Command::ListNetworks;
const VPCS: Command = Command::ListVpcs;
const ADDRESSES: Command = Command::ListPublicIpAddresses;
const RULES: Command = Command::ListLoadBalancerRules;
const FIREWALL: Command = Command::ListFirewallRules;
const ACL_LISTS: Command = Command::ListNetworkAclLists;
const ACL_ITEMS: Command = Command::ListNetworkAcls;
const MEMBERS: Command = Command::ListLoadBalancerRuleInstances;
const QUERY: Command = Command::QueryAsyncJobResult;

/// ACL lists and ACL items.
type Acls = (Listing<Vec<NetworkAclList>>, Listing<Vec<NetworkAclItem>>);

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Reads everything that `scope` covers. Members are left out: [`Client::members`].
    ///
    /// # Errors
    /// [`CallError`] if a list that every role may read can't be read whole.
    pub async fn observe(&self, scope: &Scope) -> Result<CloudState, CallError> {
        let span = debug_span!("observe");
        self.observe_all(scope).instrument(span).await
    }

    async fn observe_all(&self, scope: &Scope) -> Result<CloudState, CallError> {
        let at = self.runtime.now();
        let project = scope.project.as_ref();
        // First, and alone: it may announce a rate limit.
        self.capabilities().await?;
        let (
            machines,
            (networks, (acl_lists, acl_items)),
            vpcs,
            (jobs, addresses),
            rules,
            firewall,
        ) = tokio::try_join!(
            self.listed(MACHINES, project, machine_details(), "virtualmachine"),
            self.observe_networks(project),
            self.listed_if_allowed(VPCS, project, Vec::new(), "vpc"),
            self.observe_jobs_then_addresses(scope),
            self.listed(RULES, project, Vec::new(), "loadbalancerrule"),
            self.listed(FIREWALL, project, Vec::new(), "firewallrule"),
        )?;
        Ok(CloudState {
            at,
            // Again, with the commands that turned out to be denied.
            capabilities: self.capabilities().await?,
            addresses,
            rules: decoded(RULES, sorted(&rules, load_balancer_rule, |rule| &rule.id))?,
            members: BTreeMap::new(),
            firewall_rules: decoded(FIREWALL, sorted(&firewall, firewall_rule, |rule| &rule.id))?,
            acl_lists,
            acl_items,
            networks,
            vpcs: match vpcs {
                Listing::Listed(entries) => {
                    Listing::Listed(decoded(VPCS, sorted(&entries, vpc, |vpc| &vpc.id))?)
                }
                Listing::Denied => Listing::Denied,
            },
            virtual_machines: decoded(MACHINES, sorted(&machines, virtual_machine, |vm| &vm.id))?,
            jobs,
        })
    }

    /// Reads the members of rules, one request each: no list has them. A rule that has vanished
    /// is left out.
    ///
    /// # Errors
    /// [`CallError`] if one of them can't be read.
    pub async fn members(
        &self,
        rules: &BTreeSet<LoadBalancerRuleId>,
    ) -> Result<BTreeMap<LoadBalancerRuleId, BTreeSet<VirtualMachineId>>, CallError> {
        let found = try_join_all(rules.iter().map(|rule| self.members_of(rule))).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The command ignores paging and answers with everything: one page, that must add up.
    async fn members_of(
        &self,
        rule: &LoadBalancerRuleId,
    ) -> Result<Option<(LoadBalancerRuleId, BTreeSet<VirtualMachineId>)>, CallError> {
        let params = vec![("id", rule.to_string())];
        let answer = match self.ask(MEMBERS, &params).await {
            Ok(answer) => answer,
            Err(failure) => {
                if self.shows_vanished(rule, &failure).await? {
                    debug!(%rule, "the rule has vanished");
                    return Ok(None);
                }
                return Err(failure.into_error(MEMBERS));
            }
        };
        let wrapped = answer.contains_key("lbrulevmidip");
        let array = if wrapped { "lbrulevmidip" } else { "loadbalancerruleinstance" };
        match Pages::new(u32::MAX).handle_page(&answer, array) {
            PageStep::Complete(entries) => {
                let members = entries.iter().map(member).collect();
                Ok(Some((rule.clone(), decoded(MEMBERS, members)?)))
            }
            PageStep::Inconsistent(found) => Err(Failure::Pages(found).into_error(MEMBERS)),
            PageStep::Next(_) => {
                let found = "more pages than one".to_owned();
                Err(Failure::Pages(found).into_error(MEMBERS))
            }
        }
    }

    /// Whether members can't be read because their rule is gone. Up to 4.22 that is a 431, from
    /// 4.23 a 530 that could be anything (observed): then the list of rules decides.
    async fn shows_vanished(
        &self,
        rule: &LoadBalancerRuleId,
        failure: &Failure,
    ) -> Result<bool, CallError> {
        match failure.server() {
            Some(error) if is_unknown_id(error) => Ok(true),
            Some(error) if error.code == 530 => {
                let filter = vec![("id", rule.to_string())];
                match self.listed(RULES, None, filter, "loadbalancerrule").await {
                    Ok(rules) => Ok(rules.is_empty()),
                    Err(error) if error.code == Some(431) => Ok(true),
                    Err(error) => Err(error),
                }
            }
            Some(_) | None => Ok(false),
        }
    }

    async fn listed(
        &self,
        command: Command,
        project: Option<&ProjectId>,
        filter: Params,
        array: &'static str,
    ) -> Result<Vec<Value>, CallError> {
        let params = self.scoped(project, filter);
        let entries = self.list(command, &params, array).await;
        entries.map_err(|failure| failure.into_error(command))
    }

    /// A list that the role may lack.
    async fn listed_if_allowed(
        &self,
        command: Command,
        project: Option<&ProjectId>,
        filter: Params,
        array: &'static str,
    ) -> Result<Listing<Vec<Value>>, CallError> {
        let listing = self.list_if_allowed(command, project, filter, array).await;
        listing.map_err(|failure| failure.into_error(command))
    }

    /// As [`Client::listed_if_allowed`], with the failure as it came.
    pub(crate) async fn list_if_allowed(
        &self,
        command: Command,
        project: Option<&ProjectId>,
        filter: Params,
        array: &'static str,
    ) -> Result<Listing<Vec<Value>>, Failure> {
        if self.is_denied(command.name()) {
            return Ok(Listing::Denied);
        }
        let params = self.scoped(project, filter);
        match self.list(command, &params, array).await {
            Ok(entries) => {
                self.note_allowed(command.name());
                Ok(Listing::Listed(entries))
            }
            Err(failure) if !self.lacks(&failure).await => Err(failure),
            Err(_) => {
                self.note_denied(command.name());
                Ok(Listing::Denied)
            }
        }
    }

    /// Networks, then ACLs if one of them is a VPC tier.
    async fn observe_networks(
        &self,
        project: Option<&ProjectId>,
    ) -> Result<(Vec<Network>, Acls), CallError> {
        let entries = self.listed(NETWORKS, project, Vec::new(), "network").await?;
        let networks = decoded(NETWORKS, sorted(&entries, network, |network| &network.id))?;
        if networks.iter().all(|network| network.vpc.is_none()) {
            let nothing = (Listing::Listed(Vec::new()), Listing::Listed(Vec::new()));
            return Ok((networks, nothing));
        }
        let (lists, items) = tokio::try_join!(
            self.listed_if_allowed(ACL_LISTS, project, Vec::new(), "networkacllist"),
            self.observe_acl_items(project, &networks),
        )?;
        let lists = match lists {
            Listing::Listed(entries) => {
                Listing::Listed(decoded(ACL_LISTS, sorted(&entries, acl_list, |list| &list.id))?)
            }
            Listing::Denied => Listing::Denied,
        };
        Ok((networks, (lists, items)))
    }

    /// All items at once. One damaged item anywhere makes that a 530 (observed): then list by list,
    /// for the lists that the networks use.
    async fn observe_acl_items(
        &self,
        project: Option<&ProjectId>,
        networks: &[Network],
    ) -> Result<Listing<Vec<NetworkAclItem>>, CallError> {
        let entries =
            match self.listed_if_allowed(ACL_ITEMS, project, Vec::new(), "networkacl").await {
                Ok(Listing::Listed(entries)) => entries,
                Ok(Listing::Denied) => return Ok(Listing::Denied),
                Err(error) if error.code == Some(530) => {
                    debug!(%error, "reading ACL items list by list");
                    let used: BTreeSet<&NetworkAclListId> =
                        networks.iter().filter_map(|network| network.acl_list.as_ref()).collect();
                    let by_list = try_join_all(used.into_iter().map(|list| {
                        let filter = vec![("aclid", list.to_string())];
                        self.listed(ACL_ITEMS, project, filter, "networkacl")
                    }));
                    by_list.await?.into_iter().flatten().collect()
                }
                Err(error) => return Err(error),
            };
        let items = decoded(ACL_ITEMS, sorted(&entries, acl_item, |item| &item.id))?;
        Ok(Listing::Listed(items))
    }

    /// Jobs first: the list of addresses is newer than the end of any job that is seen ended.
    async fn observe_jobs_then_addresses(
        &self,
        scope: &Scope,
    ) -> Result<(BTreeMap<JobId, AssociateJob>, Vec<PublicIpAddress>), CallError> {
        let jobs = self.observe_jobs(&scope.jobs).await?;
        Ok((jobs, self.observe_addresses(scope).await?))
    }

    /// Allocated addresses; those asked for that may be free; and those on their way in and out,
    /// which the default list hides, if a recorded one is missing or an intent has a job: a job
    /// that failed leaves its address in Allocating, and nothing else tells of it.
    async fn observe_addresses(&self, scope: &Scope) -> Result<Vec<PublicIpAddress>, CallError> {
        let Scope { project, addresses: requested, address_ids: recorded, jobs } = scope;
        let list = |filter| self.addresses(project.as_ref(), filter);
        let mut found = list(Vec::new()).await?;
        let known: BTreeSet<_> = found.iter().map(|address| address.address).collect();
        let ids: BTreeSet<_> = found.iter().map(|address| address.id.clone()).collect();
        let mut filters: Vec<Params> = requested
            .difference(&known)
            .map(|address| {
                vec![("ipaddress", address.to_string()), ("allocatedonly", "false".to_owned())]
            })
            .collect();
        if !jobs.is_empty() || !recorded.is_subset(&ids) {
            // Up to 4.22.0 `state` takes one value.
            let states = ["Releasing", "Allocating"];
            filters.extend(states.map(|state| vec![("state", state.to_owned())]));
        }
        let more = try_join_all(filters.into_iter().map(list)).await?;
        found.extend(more.into_iter().flatten());
        found.sort_by(|left, right| left.id.cmp(&right.id));
        // The later reads are the fresher ones, but each of them is right for its moment.
        found.dedup_by(|left, right| left.id == right.id);
        Ok(found)
    }

    async fn addresses(
        &self,
        project: Option<&ProjectId>,
        filter: Params,
    ) -> Result<Vec<PublicIpAddress>, CallError> {
        let entries = self.listed(ADDRESSES, project, filter, "publicipaddress").await?;
        let addresses = entries.iter().map(address).collect::<Result<Vec<_>, _>>();
        Ok(decoded(ADDRESSES, addresses)?.into_iter().flatten().collect())
    }

    async fn observe_jobs(
        &self,
        jobs: &BTreeSet<JobId>,
    ) -> Result<BTreeMap<JobId, AssociateJob>, CallError> {
        let found = try_join_all(jobs.iter().map(|job| self.associate_job(job))).await?;
        Ok(jobs.iter().cloned().zip(found).collect())
    }

    /// 431 is an unknown job; 531 one of another account (after a change of credentials), of
    /// which nothing is known either.
    async fn associate_job(&self, job: &JobId) -> Result<AssociateJob, CallError> {
        let params = vec![("jobid", job.to_string())];
        match self.ask(QUERY, &params).await {
            Ok(object) => {
                let answer = JobAnswer::read(&object);
                decoded(QUERY, answer.and_then(|answer| associate_job(&answer)))
            }
            Err(failure) => {
                let unknown =
                    failure.server().is_some_and(|error| is_unknown_id(error) || error.code == 531);
                if unknown { Ok(AssociateJob::Unknown) } else { Err(failure.into_error(QUERY)) }
            }
        }
    }
}

/// `min` alone loses NICs of a VM with two NICs or two tags (observed).
pub(crate) fn machine_details() -> Params {
    vec![("details", "min,nics,servoff".to_owned())]
}

pub(crate) fn decoded<V>(command: Command, result: Result<V, DecodeError>) -> Result<V, CallError> {
    result.map_err(|error| decode_error(command, &error))
}
