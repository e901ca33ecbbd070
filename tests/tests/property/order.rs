//! Whether plans depend on the order in which things are read.

use ccm_core::model::Desired;
use ccm_core::observe::index::Observed;
use ccm_core::observe::{CloudState, Listing};
use ccm_core::plan::planner::{Depth, Planner};
use ccm_core::render::document::Document;
use ccm_tests::lab::{Lab, block_on};
use cloudstack_ccm::driver;
use cloudstack_ccm::ports::{Cluster as _, Objects};

/// Plans everything twice from what is there now, and once more with every list shuffled.
pub(crate) fn expect_same_bytes(lab: &Lab, seed: u64) {
    let mut objects = block_on(lab.cluster.read()).expect("the cluster");
    let desired = desire(lab, &objects);
    let read = driver::observe_state(&lab.client, &desired, &lab.policy, Depth::Thorough);
    let mut state = block_on(read).expect("CloudStack");
    let bytes = plan(lab, &desired, state.clone());
    assert_eq!(plan(lab, &desired, state.clone()), bytes, "the same input");
    let mut deck = Deck(seed);
    deck.shuffle_objects(&mut objects);
    deck.shuffle_state(&mut state);
    assert_eq!(plan(lab, &desire(lab, &objects), state), bytes, "the same input, shuffled");
}

fn desire(lab: &Lab, objects: &Objects) -> Desired {
    driver::desire(objects, &lab.policy, lab.learned.clone())
}

/// The plans of all Services, as programs read them.
fn plan(lab: &Lab, desired: &Desired, state: CloudState) -> String {
    let observed = Observed::new(state);
    let planner = Planner::new(desired, &observed, &lab.policy, lab.now());
    let plans = driver::plan_all(&planner).expect("plans");
    serde_json::to_string(&Document::new(&planner, &plans, "test")).expect("JSON")
}

/// Random numbers (`SplitMix64`) from a seed that shrinks.
struct Deck(u64);

impl Deck {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (0..list.len()).rev() {
            let chosen = self.draw() % u64::try_from(last + 1).expect("a length");
            list.swap(last, usize::try_from(chosen).expect("an index"));
        }
    }

    fn shuffle_listed<T>(&mut self, listing: &mut Listing<Vec<T>>) {
        match listing {
            Listing::Listed(list) => self.shuffle(list),
            Listing::Denied => {}
        }
    }

    /// The order of a Service's ports says which one wins a conflict, so it stays.
    fn shuffle_objects(&mut self, objects: &mut Objects) {
        let Objects { services, nodes, stripped: _ } = objects;
        self.shuffle(services);
        self.shuffle(nodes);
        for service in services {
            self.shuffle(&mut service.source_ranges);
            self.shuffle(&mut service.finalizers);
        }
        for node in nodes {
            self.shuffle(&mut node.addresses);
            self.shuffle(&mut node.taints);
        }
    }

    fn shuffle_state(&mut self, state: &mut CloudState) {
        let CloudState {
            at: _,
            capabilities: _,
            addresses,
            rules,
            members: _,
            firewall_rules,
            acl_lists,
            acl_items,
            networks,
            vpcs,
            virtual_machines,
            jobs: _,
        } = state;
        self.shuffle(addresses);
        self.shuffle(rules);
        self.shuffle(firewall_rules);
        self.shuffle_listed(acl_lists);
        self.shuffle_listed(acl_items);
        self.shuffle(networks);
        self.shuffle_listed(vpcs);
        self.shuffle(virtual_machines);
        for machine in virtual_machines {
            self.shuffle(&mut machine.nics);
        }
    }
}
