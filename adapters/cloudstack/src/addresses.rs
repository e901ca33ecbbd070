//! Fresh reads of one address: after it was associated, and before it is released.

use std::net::Ipv4Addr;
use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::{AddressUse, Output};
use ccm_core::ids::PublicIpId;
use ccm_core::observe::{AddressState, Listing, PublicIpAddress, RuleState};
use ccm_core::plan::action::{CheckAddressUnused, ResolvedAddress};

use crate::client::Client;
use crate::command::Command;
use crate::decode::address::address;
use crate::decode::rule::{firewall_rule, load_balancer_rule, port_forward};
use crate::decode::sorted;
use crate::error::{call_error, decode_error, is_not_ready, is_unknown_id};
use crate::wire::{Runtime, Transport, later};

const ADDRESSES: Command = Command::ListPublicIpAddresses;
const RULES: Command = Command::ListLoadBalancerRules;
const FIREWALL: Command = Command::ListFirewallRules;
const FORWARDS: Command = Command::ListPortForwardingRules;

/// How often a new address is looked for after its job.
const REREADS: u32 = 3;

impl<T: Transport, R: Runtime> Client<T, R> {
    /// Reads a new address: the result of its job shows an older state.
    pub(crate) async fn new_address(
        &self,
        command: Command,
        id: &PublicIpId,
        ip: Option<Ipv4Addr>,
    ) -> Result<Output, CallError> {
        for attempt in 1..=REREADS {
            let found = self
                .address_by_id(id)
                .await
                .map_err(|error| CallError { effect: Effect::Yes, ..error })?;
            if let Some(PublicIpAddress { id, address, allocated: Some(allocated), .. }) = found {
                return Ok(Output::Address(ResolvedAddress { id, address, allocated }));
            }
            let pause = Duration::from_millis(500) * attempt;
            self.runtime.sleep_until(later(self.runtime.now(), pause)).await;
        }
        let shown = ip.map_or_else(|| id.to_string(), |ip| format!("{id} ({ip})"));
        Err(call_error(
            command,
            Fault::Cloud,
            Effect::Yes,
            format!("address {shown} was associated, but it is not listed"),
        ))
    }

    /// Whether an address is ours to release still.
    pub(crate) async fn is_held(&self, id: Option<&str>) -> Result<bool, CallError> {
        let Some(id) = id.and_then(|text| PublicIpId::parse(text).ok()) else {
            return Ok(true);
        };
        Ok(self.address_by_id(&id).await?.is_some())
    }

    /// An address that is allocated or on its way out; the default list hides the latter.
    async fn address_by_id(&self, id: &PublicIpId) -> Result<Option<PublicIpAddress>, CallError> {
        for state in [None, Some("Releasing"), Some("Allocating")] {
            let mut filter = vec![("id", id.to_string())];
            filter.extend(state.map(|state| ("state", state.to_owned())));
            let params = self.scoped(None, filter);
            let entries = match self.list(ADDRESSES, &params, "publicipaddress").await {
                Ok(entries) => entries,
                Err(failure) if failure.server().is_some_and(is_unknown_id) => return Ok(None),
                Err(failure) => return Err(failure.into_error(ADDRESSES)),
            };
            for entry in &entries {
                let found = address(entry).map_err(|error| decode_error(ADDRESSES, &error))?;
                if let Some(found) = found.filter(|found| &found.id == id) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// What is on an address, read afresh.
    pub(crate) async fn check_address_unused(
        &self,
        check: &CheckAddressUnused,
    ) -> Result<Output, CallError> {
        // Whether `allocated` is still ours is the core's comparison.
        let CheckAddressUnused { address: id, allocated: _ } = check;
        let Some(address) = self.address_by_id(id).await? else {
            return Ok(Output::AddressUse(AddressUse::default()));
        };
        let (rules, firewall_rules, port_forwards) = tokio::try_join!(
            self.rules_on(id),
            self.firewall_rules_on(id),
            self.port_forwards_on(id),
        )?;
        Ok(Output::AddressUse(AddressUse {
            allocated: address.allocated,
            held: match address.state {
                AddressState::Allocated | AddressState::Releasing => true,
                AddressState::Allocating | AddressState::Reserved | AddressState::Free => false,
            },
            nat: address.source_nat || address.static_nat.is_some(),
            tags: address.tags,
            load_balancer_rules: rules,
            firewall_rules,
            port_forwards,
            has_rules: address.has_rules,
        }))
    }

    async fn rules_on(&self, id: &PublicIpId) -> Result<Vec<String>, CallError> {
        let params = self.scoped(None, vec![("publicipid", id.to_string())]);
        let entries = self.list(RULES, &params, "loadbalancerrule").await;
        let entries = entries.map_err(|failure| failure.into_error(RULES))?;
        let rules = sorted(&entries, load_balancer_rule, |rule| &rule.id);
        let rules = rules.map_err(|error| decode_error(RULES, &error))?;
        let alive = rules.into_iter().filter(|rule| rule.state != RuleState::Deleting);
        Ok(alive.map(|rule| rule.id.to_string()).collect())
    }

    /// An address that is not Allocated is not ready: it has no firewall rules to speak of.
    async fn firewall_rules_on(&self, id: &PublicIpId) -> Result<Vec<String>, CallError> {
        let params = self.scoped(None, vec![("ipaddressid", id.to_string())]);
        let entries = match self.list(FIREWALL, &params, "firewallrule").await {
            Ok(entries) => entries,
            Err(failure) if failure.server().is_some_and(is_not_ready) => Vec::new(),
            Err(failure) => return Err(failure.into_error(FIREWALL)),
        };
        let rules = sorted(&entries, firewall_rule, |rule| &rule.id);
        let rules = rules.map_err(|error| decode_error(FIREWALL, &error))?;
        let alive = rules.into_iter().filter(|rule| rule.state != RuleState::Deleting);
        Ok(alive.map(|rule| rule.id.to_string()).collect())
    }

    /// A role may lack the command: then nobody knows, which counts as none. An address that is
    /// not Allocated is not ready, as for firewall rules.
    async fn port_forwards_on(&self, id: &PublicIpId) -> Result<Vec<String>, CallError> {
        let filter = vec![("ipaddressid", id.to_string())];
        let found = self.list_if_allowed(FORWARDS, None, filter, "portforwardingrule").await;
        let entries = match found {
            Ok(Listing::Listed(entries)) => entries,
            Ok(Listing::Denied) => return Ok(Vec::new()),
            Err(failure) if failure.server().is_some_and(is_not_ready) => return Ok(Vec::new()),
            Err(failure) => return Err(failure.into_error(FORWARDS)),
        };
        let rules = sorted(&entries, port_forward, |rule| &rule.id);
        let rules = rules.map_err(|error| decode_error(FORWARDS, &error))?;
        let alive = rules.into_iter().filter(|rule| rule.state != RuleState::Deleting);
        Ok(alive.map(|rule| rule.id).collect())
    }
}
