//! What the Go controller leaves of a Service, made as it makes it: call by call.

use ccm_core::ids::{ServiceKey, ServiceUid};
use ccm_core::model::record::FINALIZER;
use ccm_core::model::rule_name::load_balancer_name;
use ccm_core::model::service::Ingress;
use ccm_tests::lab::{Lab, annotation};
use ccm_tests::oracle::{self, text};
use ccm_tests::wish::{WantedPort, Wish};

use crate::history::{Legacy, Place};

const VPC: &str = "00000000-0000-4000-8000-0000000000c1";
const PROJECT: &str = "00000000-0000-4000-8000-0000000000f0";

/// The Go controller knows none of these.
pub(crate) fn served(wish: &Wish, release: &str) -> Wish {
    let mut wish = Wish { address: None, ..wish.clone() };
    wish.ports.retain(|port| !port.udp);
    if release < "4.18" {
        wish.rule_sources = None;
    }
    wish
}

/// Lays down what serves a Service that is there already. Gives the id of its address.
pub(crate) fn lay_down(
    lab: &Lab,
    (place, account): (Place, &str),
    key: &ServiceKey,
    wish: &Wish,
    legacy: Legacy,
) -> String {
    let site = Site { lab, place, account };
    let (address, ip) = site.associate();
    let raw = lab.service(key).expect("the Service");
    let uid = ServiceUid::parse(raw.uid.as_deref().expect("a uid")).expect("a uid");
    for port in &wish.ports {
        let protocol = if wish.proxy { "tcp-proxy" } else { "tcp" };
        let (balancer, number) = (load_balancer_name(&uid), port.number);
        let name = if legacy.in_tree {
            format!("{balancer}-{number}")
        } else {
            format!("{balancer}-{protocol}-{number}")
        };
        site.balance(&address, &name, protocol, *port, wish);
        site.open(&address, &number.to_string(), wish);
    }
    lab.edit(key, |raw| {
        raw.finalizers.push(FINALIZER.to_owned());
        let ip_mode = Some(if wish.proxy { "Proxy" } else { "VIP" }.to_owned());
        raw.ingress = vec![Ingress { ip: Some(ip), hostname: None, ip_mode }];
        if legacy.verdict {
            let verdict = annotation("ip-associated-by-controller");
            raw.annotations.insert(verdict, "true".to_owned());
        }
    });
    address
}

struct Site<'a> {
    lab: &'a Lab,
    place: Place,
    account: &'a str,
}

impl Site<'_> {
    fn network(&self) -> &'static str {
        match self.place {
            Place::Isolated => "00000000-0000-4000-8000-0000000000a1",
            Place::PlainProject | Place::RestrictedProject => {
                "00000000-0000-4000-8000-0000000000a3"
            }
            Place::TierWithList | Place::TierWithFirewall => "00000000-0000-4000-8000-0000000000b1",
            Place::TierAllow => "00000000-0000-4000-8000-0000000000b3",
            Place::TierDeny => "00000000-0000-4000-8000-0000000000b4",
            Place::TierWithoutList => "00000000-0000-4000-8000-0000000000b5",
        }
    }

    fn run(&self, command: &str, params: &[(&str, &str)]) -> String {
        let answer = self.lab.by_hand_as(self.account, command, params);
        text(&answer, "id").to_owned()
    }

    /// Gives id and text of a new address.
    fn associate(&self) -> (String, String) {
        let id = match self.place {
            Place::Isolated => self.run("associateIpAddress", &[("networkid", self.network())]),
            Place::PlainProject | Place::RestrictedProject => self.run(
                "associateIpAddress",
                &[("networkid", self.network()), ("projectid", PROJECT)],
            ),
            Place::TierWithList
            | Place::TierAllow
            | Place::TierDeny
            | Place::TierWithoutList
            | Place::TierWithFirewall => self.run("associateIpAddress", &[("vpcid", VPC)]),
        };
        let found = oracle::list(self.lab, self.account, "listPublicIpAddresses", &[("id", &id)]);
        (id, text(&found[0], "ipaddress").to_owned())
    }

    fn balance(&self, address: &str, name: &str, protocol: &str, port: WantedPort, wish: &Wish) {
        let (public, private) = (port.number.to_string(), port.node_port.to_string());
        let sources = wish.rule_sources.as_ref().map(|list| list.join(",")).unwrap_or_default();
        let mut params = vec![
            ("publicipid", address),
            ("networkid", self.network()),
            ("name", name),
            ("algorithm", if wish.sticky { "source" } else { "roundrobin" }),
            ("publicport", &public),
            ("privateport", &private),
            ("protocol", protocol),
            ("openfirewall", "false"),
        ];
        if !sources.is_empty() {
            params.push(("cidrlist", &sources));
        }
        let rule = self.run("createLoadBalancerRule", &params);
        let machines = self.lab.cluster.with(|cluster| {
            let ids = cluster.nodes().filter(|node| node.labels.is_empty());
            let ids = ids.filter_map(|node| node.provider_id.as_deref()?.rsplit('/').next());
            ids.collect::<Vec<_>>().join(",")
        });
        if !machines.is_empty() {
            let members = [("id", rule.as_str()), ("virtualmachineids", &machines)];
            self.run("assignToLoadBalancerRule", &members);
        }
    }

    fn open(&self, address: &str, port: &str, wish: &Wish) {
        let ranges = wish.ranges.join(",");
        let ranges = if ranges.is_empty() { "0.0.0.0/0" } else { &ranges };
        let ports = [("protocol", "tcp"), ("startport", port), ("endport", port)];
        match self.place {
            Place::Isolated
            | Place::PlainProject
            | Place::RestrictedProject
            | Place::TierWithFirewall => {
                let on = [("ipaddressid", address), ("cidrlist", ranges)];
                self.run("createFirewallRule", &[&ports[..], &on].concat());
            }
            Place::TierWithList | Place::TierAllow | Place::TierDeny | Place::TierWithoutList => {
                self.open_in_list(&ports, port);
            }
        }
    }

    /// One item for a port of the whole tier: whatever has that port already will do. No list is
    /// made, and the default ones stay as they are.
    fn open_in_list(&self, ports: &[(&str, &str)], port: &str) {
        let list = |command, params: &[_]| oracle::list(self.lab, self.account, command, params);
        let network = list("listNetworks", &[("id", self.network())]).remove(0);
        let id = text(&network, "aclid");
        if id.is_empty() || text(&network, "aclname").starts_with("default_") {
            return;
        }
        let items = list("listNetworkACLs", &[("aclid", id)]);
        if items.iter().any(|item| ["startport", "endport"].map(|end| text(item, end)) == [port; 2])
        {
            return;
        }
        let into = [
            ("aclid", id),
            ("traffictype", "Ingress"),
            ("action", "Allow"),
            ("cidrlist", "0.0.0.0/0"),
        ];
        self.run("createNetworkACL", &[ports, &into].concat());
    }
}
