//! Replays recorded exchanges of a real CloudStack against the simulator and compares the answers.
//!
//! A recording is a file with one exchange a line. Every request is sent as its caller, with ids
//! and drawn addresses replaced by those of this run. Answers must be equal: status, recorded
//! headers, envelope, keys, types, order and values. Three kinds of values are facts of a run and
//! compare by a one-to-one mapping or by form: ids (fixed ones of the world must be the same),
//! public addresses of the world's range, and times.
//!
//! The clock stands still between requests. Only a poll that was recorded as finished first moves
//! it to the end of the jobs under way, so that a poll recorded as pending finds its job running.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use ccm_simulator::{Simulator, World};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Lists whose order means nothing, because CloudStack keeps them in hash sets.
const UNORDERED: &[&str] = &["service", "capability", "tags"];

/// One recorded request with its answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Exchange {
    /// The command; absent in requests without one.
    pub command: Option<String>,
    /// Its parameters without those of signing and formatting; numbers are written as numbers.
    pub params: BTreeMap<String, Value>,
    /// Name of the account that sent it.
    pub caller: String,
    /// HTTP method.
    pub method: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers of the answer.
    pub headers: BTreeMap<String, String>,
    /// Body of the answer: an object, or a text if it is no JSON.
    pub body: Value,
    /// What the exchange shows.
    pub note: String,
}

/// A file of exchanges.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Name of the file without its ending.
    pub name: String,
    /// In the order in which they were sent.
    pub exchanges: Vec<Exchange>,
}

/// A file that can not be replayed.
#[derive(Debug)]
pub struct ReplayError(String);

/// Outcome of the replay of one recording.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the recording.
    pub name: String,
    /// How many exchanges it has.
    pub exchanges: usize,
    /// How many of them were sent.
    pub replayed: usize,
    /// How many answers were equal.
    pub equal: usize,
    /// What differed, one entry for each difference.
    pub deviations: Vec<Deviation>,
}

/// One difference between a recorded and a given answer.
#[derive(Debug, Clone)]
pub struct Deviation {
    /// Line in the recording, counted from 1.
    pub line: usize,
    /// The command and the recording's note.
    pub exchange: String,
    /// Path to the value, such as `listzonesresponse.zone[0].name`.
    pub place: String,
    /// What the recording has.
    pub recorded: String,
    /// What the simulator gave.
    pub given: String,
}

/// A simulator with a clock, and the mapping between the recording's names and its own.
pub struct Replayer {
    simulator: Simulator,
    now: Timestamp,
    names: Names,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// If it can not be read or a line is no exchange.
    pub fn load(path: &Path) -> Result<Self, ReplayError> {
        let text = read(path)?;
        let exchanges = text
            .lines()
            .enumerate()
            .map(|(at, line)| {
                serde_json::from_str(line)
                    .map_err(|error| ReplayError(format!("{}:{}: {error}", path.display(), at + 1)))
            })
            .collect::<Result<_, _>>()?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, exchanges })
    }
}

impl Replayer {
    /// A replayer in the world of a file. The ids in it are the recording's own.
    ///
    /// # Errors
    /// If the file can not be read or used.
    pub fn load(world: &Path) -> Result<Self, ReplayError> {
        let text = read(world)?;
        let failed =
            |error: &dyn fmt::Debug| ReplayError(format!("{}: {error:?}", world.display()));
        let parsed = World::parse(&text).map_err(|error| failed(&error))?;
        let simulator = Simulator::new(&parsed).map_err(|error| failed(&error))?;
        let mut names = Names {
            range: parsed.public_range.map(|range| (range.from, range.to)),
            ..Names::default()
        };
        for piece in pieces(&text) {
            if let Piece::Id(id) = piece {
                names.fix(id);
            }
        }
        Ok(Self { simulator, now: parsed.started, names })
    }

    /// Sends every request of a recording and compares the answers.
    pub fn replay(&mut self, recording: &Recording) -> Report {
        let mut report = Report {
            name: recording.name.clone(),
            exchanges: recording.exchanges.len(),
            replayed: 0,
            equal: 0,
            deviations: Vec::new(),
        };
        for (at, exchange) in recording.exchanges.iter().enumerate() {
            let Some(command) = &exchange.command else {
                continue;
            };
            report.replayed += 1;
            let found = self.exchange(command, exchange);
            if found.is_empty() {
                report.equal += 1;
            }
            let named = format!("{command} ({})", exchange.note);
            report.deviations.extend(found.into_iter().map(|difference| Deviation {
                line: at + 1,
                exchange: named.clone(),
                place: difference.place,
                recorded: difference.recorded,
                given: difference.given,
            }));
        }
        report
    }

    fn exchange(&mut self, command: &str, exchange: &Exchange) -> Vec<Difference> {
        if is_finished_poll(&exchange.body) {
            while let Some(end) = self.simulator.next_event() {
                self.now = self.now.max(end);
                self.simulator.advance(self.now);
            }
        }
        let params: Vec<(String, String)> = exchange
            .params
            .iter()
            .map(|(name, value)| (name.clone(), self.names.translate(&plain(value))))
            .collect();
        let params: Vec<(&str, &str)> =
            params.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let response = self.simulator.call(&exchange.caller, command, &params, self.now);
        let mut comparison = Comparison { names: &mut self.names, found: Vec::new() };
        comparison.values("status", &exchange.status.into(), &response.status.into());
        for (name, recorded) in &exchange.headers {
            let given = response.header(name).unwrap_or_default();
            comparison.values(name, &recorded.as_str().into(), &given.into());
        }
        let given = serde_json::from_str(&response.body).unwrap_or(Value::String(response.body));
        comparison.values("", &exchange.body, &given);
        comparison.found
    }
}

fn read(path: &Path) -> Result<String, ReplayError> {
    fs::read_to_string(path).map_err(|error| ReplayError(format!("{}: {error}", path.display())))
}

/// A parameter as it goes over the wire.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_finished_poll(body: &Value) -> bool {
    body.get("queryasyncjobresultresponse")
        .and_then(|job| job.get("jobstatus"))
        .is_some_and(|status| *status != 0)
}

/// Names of the recording and of this run: ids and public addresses.
#[derive(Debug, Default)]
struct Names {
    ours: BTreeMap<String, String>,
    recorded: BTreeMap<String, String>,
    range: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Names {
    /// A name that is the same here and there.
    fn fix(&mut self, name: &str) {
        self.ours.insert(name.to_owned(), name.to_owned());
        self.recorded.insert(name.to_owned(), name.to_owned());
    }

    /// Whether two names stand for the same thing; two that are both new do from now on.
    fn same(&mut self, recorded: &str, given: &str) -> bool {
        match (self.ours.get(recorded), self.recorded.get(given)) {
            (None, None) => {
                self.ours.insert(recorded.to_owned(), given.to_owned());
                self.recorded.insert(given.to_owned(), recorded.to_owned());
                true
            }
            (ours, _) => ours.is_some_and(|ours| ours == given),
        }
    }

    /// A text of the recording with the names of this run.
    fn translate(&self, text: &str) -> String {
        pieces(text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Id(name) | Piece::Address(name, _) => {
                    self.ours.get(name).map_or(name, String::as_str)
                }
                Piece::Time(text) | Piece::Text(text) => text,
            })
            .collect()
    }

    fn is_drawn(&self, address: Ipv4Addr) -> bool {
        self.range.is_some_and(|(from, to)| (from..=to).contains(&address))
    }

    /// Whether two texts are the same but for names and times.
    fn texts_agree(&mut self, recorded: &str, given: &str) -> bool {
        let (recorded, given) = (pieces(recorded), pieces(given));
        recorded.len() == given.len()
            && recorded.into_iter().zip(given).all(|pair| match pair {
                (Piece::Id(recorded), Piece::Id(given)) => self.same(recorded, given),
                (Piece::Time(_), Piece::Time(_)) => true,
                (Piece::Address(recorded, there), Piece::Address(given, here))
                    if self.is_drawn(there) && self.is_drawn(here) =>
                {
                    self.same(recorded, given)
                }
                (recorded, given) => recorded == given,
            })
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Id(&'a str),
    Address(&'a str, Ipv4Addr),
    Time(&'a str),
    Text(&'a str),
}

/// Cuts a text into words, and tells ids, times and addresses among them from the rest.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let in_word =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | ':' | '+');
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(|letter| !in_word(letter)).unwrap_or(rest.len());
        let end = if word_end > 0 { word_end } else { rest.find(in_word).unwrap_or(rest.len()) };
        let (piece, after) = rest.split_at(end);
        pieces.push(classify(piece));
        rest = after;
    }
    pieces
}

fn classify(word: &str) -> Piece<'_> {
    if is_id(word) {
        Piece::Id(word)
    } else if word.len() == 24 && word.ends_with("+0000") && word.parse::<Timestamp>().is_ok() {
        Piece::Time(word)
    } else {
        word.parse().map_or(Piece::Text(word), |address| Piece::Address(word, address))
    }
}

fn is_id(word: &str) -> bool {
    let groups: Vec<usize> = word.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12]
        && word.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

/// A difference at one place of an answer.
struct Difference {
    place: String,
    recorded: String,
    given: String,
}

struct Comparison<'a> {
    names: &'a mut Names,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn values(&mut self, place: &str, recorded: &Value, given: &Value) {
        let agree = match (recorded, given) {
            (Value::Object(there), Value::Object(here)) => {
                for (key, recorded) in there {
                    let place = join(place, key);
                    match here.get(key) {
                        Some(given) if UNORDERED.contains(&key.as_str()) => {
                            self.values(&place, &sorted(recorded), &sorted(given));
                        }
                        Some(given) => self.values(&place, recorded, given),
                        None => self.differ(&place, &recorded.to_string(), "nothing"),
                    }
                }
                for (key, given) in here.iter().filter(|(key, _)| !there.contains_key(*key)) {
                    self.differ(&join(place, key), "nothing", &given.to_string());
                }
                true
            }
            (Value::Array(there), Value::Array(here)) if there.len() == here.len() => {
                for (at, (recorded, given)) in there.iter().zip(here).enumerate() {
                    self.values(&format!("{place}[{at}]"), recorded, given);
                }
                true
            }
            (Value::String(there), Value::String(here)) => self.names.texts_agree(there, here),
            (there, here) => there == here,
        };
        if !agree {
            self.differ(place, &recorded.to_string(), &given.to_string());
        }
    }

    fn differ(&mut self, place: &str, recorded: &str, given: &str) {
        self.found.push(Difference {
            place: place.to_owned(),
            recorded: recorded.to_owned(),
            given: given.to_owned(),
        });
    }
}

fn join(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}

/// A list in the order of its entries' names or keys.
fn sorted(value: &Value) -> Value {
    let Some(entries) = value.as_array() else {
        return value.clone();
    };
    let mut entries = entries.clone();
    let name = |entry: &Value| {
        let name = entry.get("name").or_else(|| entry.get("key"));
        name.map(ToString::to_string)
    };
    entries.sort_by_cached_key(name);
    entries.into()
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, exchanges, replayed, equal, deviations } = self;
        let deviating = replayed - equal;
        write!(
            formatter,
            "{name}: {exchanges} exchanges, {replayed} replayed, {equal} equal, {deviating} deviating"
        )?;
        for deviation in deviations {
            write!(formatter, "\n{deviation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, exchange, place, recorded, given } = self;
        write!(
            formatter,
            "  line {line}, {exchange}: {place}\n    recorded {recorded}\n    given    {given}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_one_to_one_inside_of_texts() {
        let mut names = Names {
            range: Some((Ipv4Addr::new(203, 0, 113, 10), Ipv4Addr::new(203, 0, 113, 20))),
            ..Names::default()
        };
        let a = "ee1873d7-9fca-49fc-8367-998292496c15";
        let b = "468011f6-05fc-4fea-88b7-b2f61d58666a";
        assert!(
            names.texts_agree(
                &format!("rule {a} is \"Active\""),
                &format!("rule {b} is \"Active\"")
            )
        );
        assert!(!names.texts_agree(&format!("rule {a}"), &format!("item {b}")));
        assert!(names.texts_agree(a, b));
        assert!(!names.texts_agree(a, a));
        assert!(!names.texts_agree(b, b));
        assert!(names.texts_agree("203.0.113.11", "203.0.113.12"));
        assert!(!names.texts_agree("203.0.113.11", "203.0.113.13"));
        assert!(!names.texts_agree("192.0.2.1", "192.0.2.2"));
        assert!(names.texts_agree("2026-12-01T20:16:39+0000", "2027-01-01T00:00:00+0000"));
        assert!(!names.texts_agree("2026-12-01T20:16:39+0000", "soon"));
        assert_eq!(names.translate(&format!("{a},x")), format!("{b},x"));
    }
}
