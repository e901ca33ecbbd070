//! Cases 1: what a start needs, and lists that are read whole.

use ccm_simulator::faults::{Fault, FaultKind, Mishap, PageFault};
use ccm_simulator::world;
use ccm_tests::lab::{Lab, Setup};
use ccm_tests::log;

use crate::support::{
    A, CLIENT, assert_nothing_planned, calls_of, machine, names, nic, param, status,
};

/// What a role may lack.
const OPTIONAL: [&str; 6] = [
    "listCapabilities",
    "listVPCs",
    "listNetworkACLLists",
    "listNetworkACLs",
    "listPortForwardingRules",
    "createTags",
];
/// What only administrators may call.
const ADMINS: [&str; 5] = [
    "listManagementServers",
    "listManagementServersMetrics",
    "listHosts",
    "listRouters",
    "listConfigurations",
];
const MACHINES: &str = "listVirtualMachines";

fn refuse(lab: &Lab, command: &str) {
    let refused = Mishap::Error { code: 432, text: "The API does not exist".to_owned() };
    let fault = Fault::on(command, FaultKind::Before(refused));
    lab.simulator.with(|simulator| simulator.inject(fault));
}

#[test]
fn c001_a_plain_user_key_is_enough() {
    let mut lab = Setup::standard().start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    lab.restart();
    assert_nothing_planned(&lab, &web);
    let new = lab.create("new", |raw| raw.ports[0].node_port = Some(30081));
    lab.settle(&new);
    assert_nothing_planned(&lab, &web);
    assert_eq!(status(&lab, &new).len(), 1);
    let sent = lab.simulator.sent();
    assert!(sent.contains(MACHINES));
    for command in ADMINS {
        assert!(!sent.contains(command), "{command}");
    }
    let refused = lab.simulator.with(|simulator| {
        let mut calls = simulator.calls().iter();
        calls.any(|call| matches!(call.status, 401 | 432))
    });
    assert!(!refused, "the role User may send all that is sent");
}

#[test]
fn c001_what_the_role_lacks_is_said_once_and_not_asked_again_within_the_hour() {
    let mut lab = Setup::standard().start();
    lab.policy.ownership_tags = true;
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    for command in OPTIONAL {
        refuse(&lab, command);
    }
    lab.restart();
    let before = OPTIONAL.map(|command| lab.simulator.times_sent(command));
    let asked = |lab: &Lab, index: usize| lab.simulator.times_sent(OPTIONAL[index]) - before[index];
    let mut new = None;
    let mut said = log::warnings(|| {
        assert_nothing_planned(&lab, &web);
        let key = lab.create("new", |raw| raw.ports[0].node_port = Some(30081));
        lab.recover(&key);
        for _ in 0..5 {
            lab.runtime.pass(600);
            assert_nothing_planned(&lab, &web);
            assert_nothing_planned(&lab, &key);
        }
        new = Some(key);
    });
    assert_eq!(status(&lab, &new.expect("a Service")).len(), 1);
    let once = OPTIONAL.map(|command| said.iter().filter(|line| line.contains(command)).count());
    for (index, command) in OPTIONAL.iter().enumerate() {
        assert!(once[index] <= 1, "{command}: {said:#?}");
        assert_eq!(asked(&lab, index), once[index], "{command}");
    }
    assert_eq!(once[0], 1);
    assert!(said.iter().all(|line| line.contains("the role may not use a command")), "{said:#?}");
    assert!(said.iter().all(|line| line.contains("cost=")), "{said:#?}");

    said = log::warnings(|| {
        lab.runtime.pass(3600);
        assert_nothing_planned(&lab, &web);
    });
    assert_eq!(asked(&lab, 0), 2, "the role may have got it in the meantime");
    assert_eq!(said, [""; 0]);
}

/// `node-1` and `node-501` are members; others fill the list between them. Served already.
fn many_machines(count: usize, limit: usize) -> (Lab, ccm_core::ids::ServiceKey) {
    let mut setup = Setup::standard().nodes(&["node-1", "node-501"]);
    setup.world.addresses.retain(|address| address.static_nat.is_none());
    let machines = &mut setup.world.virtual_machines;
    machines.retain(|machine| machine.name == "node-1");
    for number in 2..count {
        let id = format!("00000000-0000-4000-8000-1{number:011}");
        let filler = machine(&format!("filler-{number}"), &id, "iso-2", "10.1.2.1");
        machines.push(world::VirtualMachine { nics: Vec::new(), ..filler });
    }
    let last = "00000000-0000-4000-8000-200000000501";
    let nics = vec![nic("iso-1", "10.1.1.77")];
    machines
        .push(world::VirtualMachine { nics, ..machine("node-501", last, "iso-1", "10.1.1.77") });
    setup.world.page_limit = limit;
    let mut lab = setup.start();
    let web = lab.create("web", |_| ());
    lab.settle(&web);
    (lab, web)
}

#[test]
fn c002_every_page_is_read_and_the_page_size_is_learned_and_kept() {
    for (count, limit) in [(501, 500), (3, 1), (501, 20)] {
        let (lab, web) = many_machines(count, limit);
        assert_eq!(lab.read().observed.virtual_machines.len(), count);
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-1", "node-501"]));
        let learned = calls_of(&lab, MACHINES).len();
        assert_nothing_planned(&lab, &web);
        let calls = calls_of(&lab, MACHINES);
        for (index, call) in calls.iter().enumerate() {
            let size = param(call, "pagesize").map(|size| size.parse::<usize>().expect("a size"));
            assert_eq!(param(call, "page").is_some(), size.is_some(), "{call:?}");
            assert!(index < learned || size.is_some_and(|size| size <= limit), "{call:?}");
        }
        assert_eq!(calls.len() - learned, count.div_ceil(limit), "no page is tried in vain");
    }
}

type Infliction = Box<dyn Fn(&Lab)>;

#[test]
fn c002_of_a_list_that_is_not_whole_nothing_is_used() {
    let page = |fault| Fault::on(MACHINES, FaultKind::Page(fault));
    let broken: [(&str, Infliction); 3] = [
        ("page 2 answers 530", Box::new(break_second_page)),
        ("a row is missing", Box::new(move |lab| inject(lab, page(PageFault::Short)))),
        ("a row is there twice", Box::new(move |lab| inject(lab, page(PageFault::Shifted)))),
    ];
    for (what, inflict) in broken {
        let (mut lab, web) = many_machines(501, 500);
        let (objects, service) = (lab.objects(), lab.service(&web));
        let (asked, began) = (lab.simulator.times_sent(MACHINES), lab.now());
        inflict(&lab);
        assert!(lab.try_read().is_err(), "{what}");
        assert!(lab.simulator.times_sent(MACHINES) - asked >= 2, "{what}");
        let answered_well = what.starts_with("a row");
        assert_eq!(lab.now() > began, answered_well, "{what}: it is read again with back-off");
        assert_eq!(lab.objects().changes_since(&objects), Vec::<String>::new(), "{what}");
        assert_eq!(lab.service(&web), service, "{what}");
        lab.simulator.with(ccm_simulator::Simulator::clear_faults);
        lab.simulator.interrupt(|_, _| ());
        lab.settle(&web);
        assert_eq!(lab.reach(CLIENT, A, 80), names(["node-1", "node-501"]), "{what}");
    }
}

fn inject(lab: &Lab, fault: Fault) {
    lab.simulator.with(|simulator| simulator.inject(fault));
}

fn break_second_page(lab: &Lab) {
    let mut pages = 0;
    lab.simulator.interrupt(move |simulator, command| {
        pages += usize::from(command == MACHINES);
        if command == MACHINES && pages.is_multiple_of(2) {
            let error = Mishap::Error { code: 530, text: "Internal error".to_owned() };
            let fault = Fault::on(MACHINES, FaultKind::Before(error));
            simulator.inject(fault.times(1));
        }
    });
}
