//! Replays recorded exchanges of a real CloudStack against the simulator and compares the answers.
//!
//! ```text
//! *.jsonl, setup.jsonl ─► library ─► seed ─► Simulator
//!        │                                      ▲ │
//!        └─► send (names of this run, signature)┘ └─► compare (names of the recording) ─► report
//! ```
//!
//! Every file starts in a world of its own, made from what answers and `setup.jsonl` say that
//! existed when it began, so that a deviation in one does not spread to the next. Every request is
//! sent as its caller through the HTTP façade, with ids and drawn addresses replaced by those of
//! this run. Answers must be equal: status, recorded headers, envelope, keys, types, order and
//! values. Facts of a run compare otherwise:
//!
//! - Ids (fixed ones of the world must be the same), hardware addresses, public addresses of the
//!   world's range, and database numbers behind the words listed in `names.rs`: one to one.
//! - Times, also the milliseconds in `expireAfter` and behind `retry after`: by form alone. Secrets,
//!   which the recorder left out: any text.
//! - Lists in `service`, `capability`, `tags` and `tag`: without their order.
//! - Texts, lists and documents that the recorder cut: as far as they go.
//!
//! The recording does not tell when a job ended, only that it had when an answer shows its effect.
//! So any number of the jobs under way may end before a request: the first moment at which the
//! answer is equal is taken. Nor does it tell how long its caller waited: when no job is under way, a
//! request may be sent after a pause of 2 s, and the lines that needed it are counted. Requests that
//! were sent at once are sent in the order of their status, with or without that pause. What the
//! server drew by chance and the simulator can be told (`chance.rs`) is drawn again. Acts that can
//! not be done are reported.

mod act;
mod chance;
mod compare;
mod deviations;
mod left;
mod library;
mod names;
mod operate;
mod page;
mod recording;
mod report;
mod seed;
mod send;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ccm_simulator::{Response, Simulator};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use self::deviations::Deviations;
pub use self::left::world_of_lists;
pub use self::page::markdown;
pub use self::recording::{Directory, Exchange, ReplayError};
pub use self::report::Report;

use self::act::{Act, NotDone};
use self::compare::{Difference, body_differences, differences};
use self::library::Library;
use self::names::{Names, ids};
use self::recording::Recording;
use self::report::{Deviating, Undone};
use self::send::{Keys, Outgoing};
use self::setup::Setup;

/// What became of requests that were sent at once.
type Sent = (Run, Vec<(usize, Vec<Difference>, Response)>);

/// Longer than any window of the throttling: a recording does not tell how long its caller waited.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// A simulator with a clock, and the mapping between the recording's names and its own.
#[derive(Debug, Clone)]
struct Run {
    simulator: Simulator,
    now: Timestamp,
    names: Names,
    /// Keys of callers that are not those of their name.
    keys: BTreeMap<String, Keys>,
}

/// Replays one file.
struct Replayer<'a> {
    recording: &'a Recording,
    setup: Vec<&'a Setup>,
    run: Run,
    /// Ids that this run does not have, with the reason.
    missing: BTreeMap<String, String>,
    report: Report,
}

impl Directory {
    /// Replays the files that `chosen` takes by name, each in its own world.
    ///
    /// # Errors
    /// If the world of a file can not be made.
    pub fn replay(&self, chosen: impl Fn(&str) -> bool) -> Result<Vec<Report>, ReplayError> {
        let library = Library::of(self);
        let files = self.recordings.iter().enumerate();
        files
            .filter(|(_, recording)| chosen(&recording.name))
            .map(|(file, recording)| {
                let run = self.start(&library, file)?;
                let setup =
                    self.setup.iter().filter(|setup| setup.file == recording.name).collect();
                Ok(Replayer::new(recording, setup, run).replay())
            })
            .collect()
    }

    /// The world of a file as it begins. Its ids are the recording's own.
    fn start(&self, library: &Library, file: usize) -> Result<Run, ReplayError> {
        let always = self.facts.always();
        let seeds = library.seeds(self, file, &always);
        let world = seed::world(&self.facts, library, &seeds)?;
        let simulator = Simulator::new(&world).map_err(|error| {
            ReplayError(format!("the world of {}: {error}", self.recordings[file].name))
        })?;
        let [from, to] = [seed::PUBLIC_RANGE.0, seed::PUBLIC_RANGE.1]
            .map(|address| address.parse::<Ipv4Addr>().expect("an address"));
        let mut names = Names::drawn_from(Some((from, to)));
        for id in &always {
            names.fix(id);
        }
        for seed in &seeds {
            names.fix_all(&seed.object);
        }
        Ok(Run { simulator, now: world.started, names, keys: BTreeMap::new() })
    }
}

impl<'a> Replayer<'a> {
    fn new(recording: &'a Recording, setup: Vec<&'a Setup>, run: Run) -> Self {
        let report = Report {
            name: recording.name.clone(),
            exchanges: recording.exchanges.len(),
            ..Report::default()
        };
        Self { recording, setup, run, missing: BTreeMap::new(), report }
    }

    fn replay(mut self) -> Report {
        let last = self.recording.exchanges.len();
        let mut line = 1;
        while line <= last {
            let until = self.sent_with(line);
            (line..=until).for_each(|line| self.happen_before(line));
            if until > line {
                self.parallel(line, until);
            } else {
                self.single(line);
            }
            line = until + 1;
        }
        self.report
    }

    /// Does what was done out of band before a line.
    fn happen_before(&mut self, line: usize) {
        let due: Vec<&Setup> =
            self.setup.iter().copied().filter(|setup| setup.before_line == Some(line)).collect();
        for setup in due {
            let Some(act) = Act::of(setup) else {
                continue;
            };
            if let Err(NotDone(reason)) = act.perform(&mut self.run) {
                if let Some(id) = act.made().filter(|id| !self.run.names.knows(id)) {
                    self.missing.insert(id.to_owned(), reason.clone());
                }
                self.report.undone.push(Undone { before_line: line, act: act.name(), reason });
            }
        }
    }

    /// The last line that was sent at the same time as a line.
    fn sent_with(&self, line: usize) -> usize {
        let groups = self.setup.iter().filter(|setup| setup.parallel);
        let group = groups.filter_map(|setup| setup.lines).find(|(from, _)| *from == line);
        group.map_or(line, |(_, until)| until)
    }

    fn exchange(&self, line: usize) -> &'a Exchange {
        &self.recording.exchanges[line - 1]
    }

    /// Sends one request at the first moment at which its answer is equal.
    fn single(&mut self, line: usize) {
        let exchange = self.exchange(line);
        if let Some(reason) = self.obstacle(exchange) {
            self.give_up(line, reason);
            return;
        }
        let mut best: Option<(Vec<Difference>, Run, Response)> = None;
        let mut has_paused = false;
        let mut moment = self.run.clone();
        self.choose(&mut moment, line);
        loop {
            let mut run = moment.clone();
            let response = self.outgoing(line, &run).send(&mut run.simulator, run.now);
            let found = compared(&mut run.names, exchange, &response);
            let better = best.as_ref().is_none_or(|(least, ..)| found.len() < least.len());
            let equal = found.is_empty();
            if better {
                best = Some((found, run, response));
            }
            if equal {
                self.report.waited.extend(has_paused.then_some(line));
                break;
            }
            // The end of the next job; when none is under way, a pause, once.
            if !moment.pass_one_job() {
                if has_paused {
                    break;
                }
                has_paused = true;
                moment.now += PAUSE;
            }
        }
        let (found, run, response) = best.expect("at least one moment");
        self.run = run;
        self.judge(line, found, &response);
    }

    /// Sends the requests of several lines at once, as they are or after a pause.
    fn parallel(&mut self, from: usize, until: usize) {
        let lines: Vec<usize> = (from..=until).collect();
        let (able, unable): (Vec<usize>, Vec<usize>) =
            lines.into_iter().partition(|line| self.obstacle(self.exchange(*line)).is_none());
        for line in unable {
            let reason = self.obstacle(self.exchange(line)).unwrap_or_default();
            self.give_up(line, reason);
        }
        let at_once = self.sent_together(&able, self.run.clone());
        let mut later = self.run.clone();
        later.now += PAUSE;
        let equal = |(_, outcomes): &Sent| -> BTreeSet<usize> {
            let equal = outcomes.iter().filter(|(_, found, _)| found.is_empty());
            equal.map(|(line, ..)| *line).collect()
        };
        let first = equal(&at_once);
        let (run, outcomes) = if first.len() == able.len() {
            at_once
        } else {
            let later = self.sent_together(&able, later);
            let second = equal(&later);
            if second.len() > first.len() {
                self.report.waited.extend(second.difference(&first));
                later
            } else {
                at_once
            }
        };
        self.run = run;
        for (line, found, response) in outcomes {
            self.judge(line, found, &response);
        }
    }

    /// Sends some requests in a run. What succeeded came first, as far as the answers tell; answers
    /// to equal requests are compared in any order.
    fn sent_together(&self, lines: &[usize], mut run: Run) -> Sent {
        let mut order = lines.to_vec();
        order.sort_by_key(|line| self.exchange(*line).status);
        let mut given: Vec<(usize, Response)> = Vec::new();
        for line in order {
            self.choose(&mut run, line);
            let outgoing = self.outgoing(line, &run);
            given.push((line, outgoing.send(&mut run.simulator, run.now)));
        }
        let mut outcomes = Vec::new();
        for line in lines {
            let exchange = self.exchange(*line);
            let is_equal = |(other, response): &(usize, Response)| {
                let other = self.exchange(*other);
                let mut names = run.names.clone();
                other.command == exchange.command
                    && other.params == exchange.params
                    && compared(&mut names, exchange, response).is_empty()
            };
            let own = given.iter().position(|(other, _)| other == line);
            let at = given.iter().position(is_equal).or(own).unwrap_or(0);
            let (_, response) = given.remove(at);
            let found = compared(&mut run.names, exchange, &response);
            outcomes.push((*line, found, response));
        }
        (run, outcomes)
    }

    fn outgoing(&self, line: usize, run: &Run) -> Outgoing {
        let setup: Vec<&Setup> =
            self.setup.iter().copied().filter(|setup| setup.concerns(line)).collect();
        let exchange = self.exchange(line);
        Outgoing::of(exchange, &setup, &run.names, &run.keys_of(&exchange.caller), run.now)
    }

    /// Why a request can not be sent: it names something that this run does not have.
    fn obstacle(&self, exchange: &Exchange) -> Option<String> {
        exchange.params.values().find_map(|value| {
            let text = send::plain(value);
            ids(&text).find_map(|id| self.missing.get(id).cloned())
        })
    }

    fn judge(&mut self, line: usize, found: Vec<Difference>, response: &Response) {
        let exchange = self.exchange(line);
        let command = exchange.command.as_deref().unwrap_or("no command");
        if exchange.status != 401 && is_unknown_command(response) {
            self.give_up(line, format!("the simulator does not have {command} for this caller"));
            return;
        }
        if found.is_empty() {
            self.report.equal += 1;
            return;
        }
        self.report.deviating.push(Deviating {
            line,
            exchange: format!("{command} ({})", exchange.note),
            differences: found,
        });
        self.lose(exchange, &format!("needs what line {line} made, which deviates"));
    }

    fn give_up(&mut self, line: usize, reason: String) {
        self.lose(self.exchange(line), &reason);
        self.report.not_replayable.insert(line, reason);
    }

    /// Notes what a request would have made: ids in its answer that stand for nothing here.
    fn lose(&mut self, exchange: &Exchange, reason: &str) {
        let text = exchange.body.to_string();
        for id in ids(&text).filter(|id| !self.run.names.knows(id)) {
            self.missing.entry(id.to_owned()).or_insert_with(|| reason.to_owned());
        }
    }
}

impl Run {
    /// The keys that a caller signs with.
    fn keys_of(&self, caller: &str) -> Keys {
        self.keys.get(caller).cloned().unwrap_or_else(|| Keys::of(caller))
    }

    /// Moves the clock to the next end of a job; false if none is under way.
    fn pass_one_job(&mut self) -> bool {
        let Some(end) = self.simulator.next_event() else {
            return false;
        };
        self.now = self.now.max(end);
        self.simulator.advance(self.now);
        true
    }

    /// Moves the clock to the end of the last job.
    fn pass_all_jobs(&mut self) {
        while self.pass_one_job() {}
    }
}

/// Differences in status, recorded headers and body.
fn compared(names: &mut Names, exchange: &Exchange, response: &Response) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut at = |place: &str, recorded: &Value, given: &Value| {
        let place = || place.to_owned();
        let differences = differences(names, recorded, given).into_iter();
        found.extend(differences.map(|difference| Difference { place: place(), ..difference }));
    };
    at("status", &exchange.status.into(), &response.status.into());
    for (name, recorded) in &exchange.headers {
        let given = response.header(name).unwrap_or_default();
        at(name, &recorded.as_str().into(), &given.into());
    }
    found.extend(body_differences(names, &exchange.body, &response.body));
    found
}

/// The answer to a command that does not exist, or whose caller does not.
fn is_unknown_command(response: &Response) -> bool {
    response.status == 401
}
