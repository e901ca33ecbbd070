//! What happens in a storm, as data: drawn from a seed, shrunk, written to a file and read again.

use std::path::PathBuf;

use ccm_simulator::faults::{
    Fault, FaultKind, JobFault, Mishap, PageFault, RouterFault, RouterPart,
};
use jiff::SignedDuration;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::{Deserialize, Serialize};

use crate::lab::fixture;
use crate::wish::{Wish, wishes};

/// Services of one cluster.
pub const SERVICES: usize = 4;
/// Nodes of one cluster.
pub const NODES: usize = 3;
/// Length of the storm proper, in seconds.
pub const STORM: u32 = 3_600;

/// A storm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    /// Decides latencies and chance.
    pub seed: u64,
    /// Release of CloudStack.
    pub release: String,
    /// Whether all clusters live in one project, with keys of the restricted role.
    pub restricted: bool,
    /// Whether what is made is tagged.
    #[serde(default)]
    pub tags: bool,
    /// Where the nodes of each cluster are. They share account and names of Services.
    pub clusters: Vec<Site>,
    /// What happens, in order of time.
    pub events: Vec<Timed>,
    /// A single call that goes wrong.
    #[serde(default)]
    pub strike: Option<Strike>,
}

/// Storms that are kept, by name: what was found once (`fixtures/histories`), and stories that
/// hardly any seed tells (`fixtures/stories`).
pub fn stories() -> Vec<(String, Script)> {
    let of = |directory: &str| {
        let files = std::fs::read_dir(fixture(directory)).expect("the stories");
        files.map(|file| file.expect("a file").path())
    };
    let mut paths: Vec<PathBuf> = of("histories").chain(of("stories")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a story");
        let script = serde_json::from_str(&text);
        let script = script.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), script)
    };
    paths.into_iter().map(read).collect()
}

/// A single call that goes wrong, at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strike {
    /// Its command.
    pub command: String,
    /// The how many-th of that command it is, from 1.
    pub call: u64,
    /// What it meets with.
    pub blow: Blow,
}

/// A network for the nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Site {
    /// Isolated network `iso-1` (in a project: `iso-web`).
    Isolated,
    /// A tier with its own ACL list.
    TierWithList,
    /// Another tier with the same list.
    SecondTier,
    /// A tier with `default_allow`.
    TierAllow,
    /// A tier with `default_deny`.
    TierDeny,
    /// A tier without a list.
    TierWithoutList,
}

/// Something that happens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timed {
    /// Seconds since the start.
    pub at: u32,
    /// What happens.
    pub event: Event,
}

/// What happens. Clusters, Services and Nodes are numbered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// A Service is made, or asks for something else.
    Apply(usize, usize, Wish),
    /// A Service is deleted.
    Delete(usize, usize),
    /// A Service is deleted, and at once there is another of its name.
    Replace(usize, usize, Wish),
    /// A Service vanishes: somebody removed its finalizers.
    Erase(usize, usize),
    /// A Service becomes `ClusterIP`.
    Retype(usize, usize),
    /// A Service gets the class of another controller.
    Reclass(usize, usize),
    /// Somebody strips what we wrote on a Service.
    Strip(usize, usize),
    /// A Node leaves the cluster; its machine stays.
    NodeLeaves(usize, usize),
    /// A Node joins the cluster, uninitialised.
    NodeJoins(usize, usize),
    /// A Node is excluded from load balancers.
    NodeExcluded(usize, usize),
    /// A machine is stopped; its Node is not ready any more.
    MachineStops(usize, usize),
    /// A machine is started again.
    MachineStarts(usize, usize),
    /// A machine is removed for good.
    MachineGoes(usize, usize),
    /// Somebody works on the first rule of a Service in CloudStack.
    ByHand(usize, usize, Hand),
    /// The process dies, and another one starts.
    Kill(usize),
    /// Another process takes over; what the old one has begun goes on for a while.
    TakeOver(usize),
    /// The clock of the process jumps by so many seconds.
    ClockJumps(usize, i32),
    /// CloudStack gets another release.
    Upgrade(String),
    /// Something goes wrong with CloudStack for so many seconds.
    Cloud(u32, CloudTrouble),
    /// Something goes wrong with an API server for so many seconds.
    Kube(usize, u32, KubeTrouble),
}

/// What somebody does by hand.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Hand {
    /// Deletes the rule.
    DeleteRule,
    /// Takes a member out.
    RemoveMember,
    /// Chooses another algorithm.
    ChangeAlgorithm,
    /// Calls it something else.
    Rename,
    /// Closes a firewall rule of its address.
    CloseFirewall,
    /// Puts a rule of their own on its address.
    ForeignRule,
    /// Lets somebody else in to exactly its port.
    ForeignOpening,
    /// Puts a rule of the same name and port on an address of their own.
    Namesake,
    /// Takes away what describes the rule, as rules of the Go controller have nothing either.
    Undescribe,
    /// Releases its address, and associates it for themselves.
    GiveAway,
}

/// What goes wrong between a process and its API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum KubeTrouble {
    /// Writes are refused with this code.
    Refused(u16),
    /// Writes get lost on the way.
    WriteLost,
    /// Writes are done, and their answers get lost.
    AnswerLost,
    /// News come late.
    WatchLags,
    /// No news come; then everything is listed again.
    WatchBroken,
}

/// What goes wrong with CloudStack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloudTrouble {
    /// A command, or every one, meets with this so many times of a hundred.
    Command(Option<String>, Blow, u8),
    /// Pushes of a kind fail.
    Router(Part, RouterBlow),
    /// The management server is dead, and its jobs with it.
    Dead,
    /// The keys are not good any more.
    LockedOut,
    /// Few calls are allowed.
    Throttled,
}

/// What a command meets with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Blow {
    /// Refused with this code, and not carried out.
    ErrorBefore(u16),
    /// What it is about does not exist, it is said.
    NotFound,
    /// Carried out, and answered with this code.
    ErrorAfter(u16),
    /// Not carried out; the connection ends.
    RequestLost,
    /// Carried out; the connection ends.
    AnswerLost,
    /// Carried out, and nothing is ever answered.
    Silence,
    /// Answered by something in between.
    Gateway,
    /// A list ends early.
    ShortPage,
    /// A list shows the past.
    StalePage,
    /// A list shows a row twice.
    DuplicatedPage,
    /// A list is in another order.
    ReorderedPage,
    /// A list moves between its pages.
    ShiftedPage,
    /// A job takes this many seconds longer.
    SlowJob(u32),
    /// A job fails at its end.
    FailedJob,
    /// A job is carried out and forgotten.
    ForgottenJob,
}

/// What a router is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// Load balancer rules.
    Rules,
    /// Firewall rules.
    Firewall,
    /// Addresses.
    Addresses,
    /// ACL items.
    Acls,
}

/// How a router behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RouterBlow {
    /// It refuses.
    Fail,
    /// It breaks down.
    Throw,
    /// It does not answer.
    Silence,
}

impl From<Part> for RouterPart {
    fn from(part: Part) -> Self {
        match part {
            Part::Rules => Self::LoadBalancer,
            Part::Firewall => Self::Firewall,
            Part::Addresses => Self::Address,
            Part::Acls => Self::Acl,
        }
    }
}

impl From<RouterBlow> for RouterFault {
    fn from(blow: RouterBlow) -> Self {
        match blow {
            RouterBlow::Fail => Self::Fail,
            RouterBlow::Throw => Self::Throw,
            RouterBlow::Silence => Self::Silence,
        }
    }
}

impl Blow {
    /// The simulator's fault.
    pub fn fault(self, command: Option<&str>, percent: u8) -> Fault {
        let text = "out of order".to_owned();
        let kind = match self {
            Self::ErrorBefore(code) => FaultKind::Before(Mishap::Error { code, text }),
            Self::NotFound => {
                let text = "entity does not exist".to_owned();
                FaultKind::Before(Mishap::Error { code: 431, text })
            }
            Self::ErrorAfter(code) => FaultKind::After(Mishap::Error { code, text }),
            Self::RequestLost => FaultKind::Before(Mishap::Closed),
            Self::AnswerLost => FaultKind::After(Mishap::Closed),
            Self::Silence => FaultKind::After(Mishap::Silence),
            Self::Gateway => {
                FaultKind::Before(Mishap::Body { status: 502, body: "Bad Gateway".to_owned() })
            }
            Self::ShortPage => FaultKind::Page(PageFault::Short),
            Self::StalePage => FaultKind::Page(PageFault::Stale),
            Self::DuplicatedPage => FaultKind::Page(PageFault::Duplicated),
            Self::ReorderedPage => FaultKind::Page(PageFault::Reordered),
            Self::ShiftedPage => FaultKind::Page(PageFault::Shifted),
            Self::SlowJob(seconds) => {
                FaultKind::Job(JobFault::Slow(SignedDuration::from_secs(seconds.into())))
            }
            Self::FailedJob => FaultKind::Job(JobFault::Fails { code: 530, text }),
            Self::ForgottenJob => FaultKind::Job(JobFault::Vanishes),
        };
        let fault = match command {
            Some(command) => Fault::on(command, kind),
            None => Fault::on_all(kind),
        };
        fault.percent(percent)
    }
}

/// Commands that the controller sends.
pub const COMMANDS: [&str; 21] = [
    "associateIpAddress",
    "disassociateIpAddress",
    "createLoadBalancerRule",
    "updateLoadBalancerRule",
    "deleteLoadBalancerRule",
    "assignToLoadBalancerRule",
    "removeFromLoadBalancerRule",
    "createFirewallRule",
    "deleteFirewallRule",
    "createNetworkACL",
    "deleteNetworkACL",
    "createTags",
    "queryAsyncJobResult",
    "listPublicIpAddresses",
    "listLoadBalancerRules",
    "listLoadBalancerRuleInstances",
    "listFirewallRules",
    "listNetworkACLs",
    "listNetworks",
    "listVirtualMachines",
    "listCapabilities",
];

const RELEASES: [&str; 7] =
    ["4.16.1.0", "4.18.0.0", "4.20.0.0", "4.21.0.0", "4.22.0.0", "4.22.0.0", "4.23.0.0"];

impl Script {
    /// The storm of a seed.
    pub fn of_seed(seed: u64) -> Self {
        tree(seed).current()
    }

    /// The same people, in a world where nothing goes wrong but what they do.
    #[must_use]
    pub fn without_trouble(mut self) -> Self {
        self.events.retain(|timed| {
            !matches!(timed.event, Event::Cloud(..) | Event::Kube(..) | Event::TakeOver(_))
        });
        self
    }

    /// The smallest storm of a seed that still `fails`, after so many attempts at most.
    pub fn shrink(seed: u64, attempts: usize, fails: impl Fn(&Self) -> bool) -> Self {
        let mut tree = tree(seed);
        let mut smallest = tree.current();
        for _ in 0..attempts {
            let smaller = tree.current();
            let moved = if fails(&smaller) {
                smallest = smaller;
                tree.simplify()
            } else {
                tree.complicate()
            };
            if !moved {
                break;
            }
        }
        smallest
    }
}

fn tree(seed: u64) -> impl ValueTree<Value = Script> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    scripts(seed).new_tree(&mut runner).expect("nothing is filtered")
}

fn scripts(seed: u64) -> impl Strategy<Value = Script> {
    let sites = select(vec![
        Site::Isolated,
        Site::Isolated,
        Site::TierWithList,
        Site::SecondTier,
        Site::TierAllow,
        Site::TierDeny,
        Site::TierWithoutList,
    ]);
    let restricted = proptest::bool::weighted(0.2);
    let events = vec((0..STORM, events()), 3..40);
    let tags = proptest::bool::weighted(0.3);
    (select(RELEASES.to_vec()), restricted, tags, vec(sites, 1..=3), events).prop_map(
        move |(release, restricted, tags, mut clusters, events)| {
            if restricted {
                clusters.fill(Site::Isolated);
            }
            let mut events: Vec<Timed> =
                events.into_iter().map(|(at, event)| Timed { at, event }).collect();
            events.sort_by_key(|timed| timed.at);
            Script {
                seed,
                release: release.to_owned(),
                restricted,
                tags,
                clusters,
                events,
                strike: None,
            }
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    let cluster = || 0_usize..3;
    let service = || (cluster(), 0..SERVICES);
    let node = || (cluster(), 0..NODES);
    prop_oneof![
        12 => (service(), wishes()).prop_map(|((c, s), wish)| Event::Apply(c, s, wish)),
        4 => service().prop_map(|(c, s)| Event::Delete(c, s)),
        1 => (service(), wishes()).prop_map(|((c, s), wish)| Event::Replace(c, s, wish)),
        1 => service().prop_map(|(c, s)| Event::Erase(c, s)),
        1 => service().prop_map(|(c, s)| Event::Retype(c, s)),
        1 => service().prop_map(|(c, s)| Event::Reclass(c, s)),
        1 => service().prop_map(|(c, s)| Event::Strip(c, s)),
        1 => node().prop_map(|(c, n)| Event::NodeLeaves(c, n)),
        1 => node().prop_map(|(c, n)| Event::NodeJoins(c, n)),
        1 => node().prop_map(|(c, n)| Event::NodeExcluded(c, n)),
        1 => node().prop_map(|(c, n)| Event::MachineStops(c, n)),
        1 => node().prop_map(|(c, n)| Event::MachineStarts(c, n)),
        1 => node().prop_map(|(c, n)| Event::MachineGoes(c, n)),
        2 => (service(), hands()).prop_map(|((c, s), hand)| Event::ByHand(c, s, hand)),
        3 => cluster().prop_map(Event::Kill),
        2 => cluster().prop_map(Event::TakeOver),
        1 => (cluster(), -90..90).prop_map(|(c, by)| Event::ClockJumps(c, by)),
        1 => select(RELEASES.to_vec()).prop_map(|release| Event::Upgrade(release.to_owned())),
        8 => (10_u32..600, cloud_troubles()).prop_map(|(time, trouble)| Event::Cloud(time, trouble)),
        3 => (cluster(), 5_u32..300, kube_troubles())
            .prop_map(|(c, time, trouble)| Event::Kube(c, time, trouble)),
    ]
}

fn hands() -> impl Strategy<Value = Hand> {
    select(vec![
        Hand::DeleteRule,
        Hand::RemoveMember,
        Hand::ChangeAlgorithm,
        Hand::Rename,
        Hand::CloseFirewall,
        Hand::ForeignRule,
        Hand::ForeignOpening,
        Hand::Namesake,
    ])
}

fn cloud_troubles() -> impl Strategy<Value = CloudTrouble> {
    let command = proptest::option::weighted(0.8, select(COMMANDS.map(str::to_owned).to_vec()));
    let parts = select(vec![Part::Rules, Part::Firewall, Part::Addresses, Part::Acls]);
    let router = select(vec![RouterBlow::Fail, RouterBlow::Throw, RouterBlow::Silence]);
    prop_oneof![
        12 => (command, blows(), select(vec![20_u8, 50, 100]))
            .prop_map(|(command, blow, percent)| CloudTrouble::Command(command, blow, percent)),
        3 => (parts, router).prop_map(|(part, blow)| CloudTrouble::Router(part, blow)),
        1 => Just(CloudTrouble::Dead),
        1 => Just(CloudTrouble::LockedOut),
        1 => Just(CloudTrouble::Throttled),
    ]
}

fn blows() -> impl Strategy<Value = Blow> {
    let codes = || select(vec![401_u16, 429, 431, 432, 530, 532, 533, 534, 535, 537]);
    prop_oneof![
        3 => codes().prop_map(Blow::ErrorBefore),
        2 => select(vec![530_u16, 429, 534]).prop_map(Blow::ErrorAfter),
        2 => Just(Blow::RequestLost),
        3 => Just(Blow::AnswerLost),
        1 => Just(Blow::Silence),
        1 => Just(Blow::Gateway),
        1 => Just(Blow::ShortPage),
        1 => Just(Blow::StalePage),
        1 => Just(Blow::DuplicatedPage),
        1 => Just(Blow::ReorderedPage),
        1 => Just(Blow::ShiftedPage),
        1 => (5_u32..900).prop_map(Blow::SlowJob),
        2 => Just(Blow::FailedJob),
        2 => Just(Blow::ForgottenJob),
    ]
}

fn kube_troubles() -> impl Strategy<Value = KubeTrouble> {
    prop_oneof![
        select(vec![403_u16, 409, 422, 429, 500, 503]).prop_map(KubeTrouble::Refused),
        Just(KubeTrouble::WriteLost),
        Just(KubeTrouble::AnswerLost),
        Just(KubeTrouble::WatchLags),
        Just(KubeTrouble::WatchBroken),
    ]
}
