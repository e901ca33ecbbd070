//! Names of the recording and of this run: what a run draws, and what stands for what.
//!
//! Ids, hardware addresses, public addresses of the world's range, and database numbers behind
//! listed words map one to one, the latter for each of the words. Times compare by form alone.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::Value;

/// Words before which a number of a text is one of the database: CloudStack's error texts show it.
const BEFORE_NUMBERS: &[&str] = &[
    "\"id\":",
    "\"networkId\":",
    "ID ",
    "ID=",
    "id=",
    "rule: ",
    "rule:",
    "VM ",
    "Instances [",
    "zone ",
    "Network ",
];

/// Words before a number of milliseconds: a time, which differs in any other run.
const BEFORE_TIMES: &[&str] = &["retry after ["];

/// What the recorder put in the place of secrets.
const SECRET: &str = "REDACTED";

/// Parts of objects whose ids a world file does not have.
const UNFIXED: &[&str] = &["secondaryip"];

/// A string that the recorder cut ends so, with the number of characters before it.
const CUT: &str = "characters, cut by the recorder]";

/// A number of the database, with the words before it.
type Number = (&'static str, String);

/// The mapping between the recording's names and those of this run.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    ours: BTreeMap<String, String>,
    recorded: BTreeMap<String, String>,
    numbers: BTreeMap<Number, String>,
    recorded_numbers: BTreeMap<Number, String>,
    range: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Names {
    /// Names where public addresses are drawn from a range, both ends included.
    pub(super) fn drawn_from(range: Option<(Ipv4Addr, Ipv4Addr)>) -> Self {
        Self { range, ..Self::default() }
    }

    /// Names everything in an object of the world the same here and there, but for what a world
    /// file can not fix.
    pub(super) fn fix_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.fix(text),
            Value::Array(values) => values.iter().for_each(|value| self.fix_all(value)),
            Value::Object(fields) => {
                let fixed = fields.iter().filter(|(key, _)| !UNFIXED.contains(&key.as_str()));
                fixed.for_each(|(_, value)| self.fix_all(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Names every id and public address of a text the same here and there, but for ids that have a
    /// name already.
    pub(super) fn fix(&mut self, text: &str) {
        for piece in pieces(text) {
            match piece {
                Piece::Id(name) if !self.knows(name) => self.bind(name, name),
                Piece::Address(name, address) if self.is_drawn(address) => self.bind(name, name),
                Piece::Id(_) | Piece::Address(..) | Piece::Time(_) | Piece::Text(_) => {}
            }
        }
    }

    /// Lets a name of this run stand for one of the recording from now on.
    pub(super) fn bind(&mut self, recorded: &str, ours: &str) {
        self.ours.insert(recorded.to_owned(), ours.to_owned());
        self.recorded.insert(ours.to_owned(), recorded.to_owned());
    }

    /// The id of this run that stands for one of the recording.
    pub(super) fn ours(&self, recorded: &str) -> Option<&str> {
        self.ours.get(recorded).map(String::as_str)
    }

    /// Whether an id of the recording stands for something in this run.
    pub(super) fn knows(&self, recorded: &str) -> bool {
        self.ours.contains_key(recorded)
    }

    /// Whether two names stand for the same thing; two that are both new do from now on.
    fn same(&mut self, recorded: &str, given: &str) -> bool {
        match (self.ours.get(recorded), self.recorded.get(given)) {
            (None, None) => {
                self.bind(recorded, given);
                true
            }
            (ours, _) => ours.is_some_and(|ours| ours == given),
        }
    }

    /// A text of the recording with the names of this run.
    pub(super) fn translate(&self, text: &str) -> String {
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

    /// Whether two texts are the same but for names and times. A text that the recorder cut is
    /// compared as far as it goes.
    pub(super) fn texts_agree(&mut self, recorded: &str, given: &str) -> bool {
        if recorded == SECRET {
            return !given.is_empty();
        }
        let Some(kept) = before_cut(recorded) else {
            return self.pieces_agree(&pieces(recorded), &pieces(given));
        };
        // The last word may be cut in two.
        let between = kept.char_indices().rfind(|(_, letter)| is_between(*letter));
        let (whole, started) =
            kept.split_at(between.map_or(0, |(at, letter)| at + letter.len_utf8()));
        let (whole, given) = (pieces(whole), pieces(given));
        let Some((same, rest)) = given.split_at_checked(whole.len()) else {
            return false;
        };
        let rest: String = rest.iter().map(|piece| piece.text()).collect();
        self.pieces_agree(&whole, same) && rest.starts_with(started)
    }

    fn pieces_agree(&mut self, recorded: &[Piece<'_>], given: &[Piece<'_>]) -> bool {
        let mut before = String::new();
        recorded.len() == given.len()
            && recorded.iter().zip(given).all(|(there, here)| {
                let agree = match (there, here) {
                    (Piece::Id(recorded), Piece::Id(given)) => self.same(recorded, given),
                    (Piece::Time(_), Piece::Time(_)) => true,
                    (Piece::Address(recorded, there), Piece::Address(given, here))
                        if self.is_drawn(*there) && self.is_drawn(*here) =>
                    {
                        self.same(recorded, given)
                    }
                    (Piece::Text(recorded), Piece::Text(given)) => {
                        self.words_agree(&before, recorded, given)
                    }
                    (recorded, given) => recorded == given,
                };
                before.push_str(there.text());
                agree
            })
    }

    /// Whether two words are the same, or numbers that stand for the same by the words before them.
    fn words_agree(&mut self, before: &str, recorded: &str, given: &str) -> bool {
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let list = before
            .trim_end_matches(|letter: char| ", ".contains(letter) || letter.is_ascii_digit());
        let before = if before.ends_with(", ") { list } else { before };
        if !is_number(recorded) || !is_number(given) {
            return recorded == given;
        }
        if BEFORE_TIMES.iter().any(|words| before.ends_with(words)) {
            return true;
        }
        let Some(kind) = BEFORE_NUMBERS.iter().find(|words| before.ends_with(**words)) else {
            return recorded == given;
        };
        let ours = self.numbers.entry((kind, recorded.to_owned()));
        let theirs = self.recorded_numbers.entry((kind, given.to_owned()));
        ours.or_insert_with(|| given.to_owned()) == given
            && theirs.or_insert_with(|| recorded.to_owned()) == recorded
    }
}

/// What stands before the recorder's mark in a text that it cut.
fn before_cut(text: &str) -> Option<&str> {
    text.strip_suffix(CUT)?.rsplit_once("…[").map(|(kept, _)| kept)
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Id(&'a str),
    Address(&'a str, Ipv4Addr),
    Time(&'a str),
    Text(&'a str),
}

impl<'a> Piece<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Id(text) | Self::Address(text, _) | Self::Time(text) | Self::Text(text) => text,
        }
    }
}

/// The ids in a text.
pub(super) fn ids(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Id(id) => Some(id),
        Piece::Address(..) | Piece::Time(_) | Piece::Text(_) => None,
    })
}

/// Whether a character separates words.
fn is_between(letter: char) -> bool {
    !letter.is_alphanumeric() && !matches!(letter, '-' | '.' | ':' | '+')
}

/// Cuts a text into words, and tells ids, times and addresses among them from the rest.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(is_between).unwrap_or(rest.len());
        let is_word = |letter| !is_between(letter);
        let end = if word_end > 0 { word_end } else { rest.find(is_word).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(end);
        let bare = word.trim_matches([':', '.']);
        match word.split_once(bare).filter(|_| !bare.is_empty()) {
            Some((front, back)) => {
                let (named, number) = before_number(bare);
                let parts =
                    [Piece::Text(front), Piece::Text(named), classify(number), Piece::Text(back)];
                pieces.extend(parts.into_iter().filter(|part| !part.text().is_empty()));
            }
            None => pieces.push(Piece::Text(word)),
        }
        rest = after;
    }
    pieces
}

/// Cuts a number off that a text shows right after a colon: `rule:3`.
fn before_number(word: &str) -> (&str, &str) {
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let cut = word.find(':').map(|at| word.split_at(at + 1));
    cut.filter(|(name, number)| {
        name.starts_with(|first: char| first.is_ascii_lowercase()) && is_number(number)
    })
    .unwrap_or(("", word))
}

fn classify(word: &str) -> Piece<'_> {
    if is_id(word) || is_mac(word) {
        Piece::Id(word)
    } else if word.len() == 24 && word.ends_with("+0000") && word.parse::<Timestamp>().is_ok() {
        Piece::Time(word)
    } else {
        word.parse().map_or(Piece::Text(word), |address| Piece::Address(word, address))
    }
}

/// Hardware addresses are drawn like ids.
fn is_mac(word: &str) -> bool {
    let groups: Vec<&str> = word.split(':').collect();
    let is_byte =
        |group: &&str| group.len() == 2 && group.bytes().all(|digit| digit.is_ascii_hexdigit());
    groups.len() == 6 && groups.iter().all(is_byte)
}

fn is_id(word: &str) -> bool {
    let groups: Vec<usize> = word.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12]
        && word.chars().all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "ee1873d7-9fca-49fc-8367-998292496c15";
    const B: &str = "468011f6-05fc-4fea-88b7-b2f61d58666a";

    fn names() -> Names {
        Names::drawn_from(Some((Ipv4Addr::new(203, 0, 113, 10), Ipv4Addr::new(203, 0, 113, 20))))
    }

    #[test]
    fn names_map_one_to_one_inside_of_texts() {
        let mut names = names();
        assert!(
            names.texts_agree(
                &format!("rule {A} is \"Active\""),
                &format!("rule {B} is \"Active\"")
            )
        );
        assert!(!names.texts_agree(&format!("rule {A}"), &format!("item {B}")));
        assert!(names.texts_agree(A, B));
        assert!(!names.texts_agree(A, A));
        assert!(!names.texts_agree(B, B));
        assert!(names.texts_agree("203.0.113.11", "203.0.113.12"));
        assert!(!names.texts_agree("203.0.113.11", "203.0.113.13"));
        assert!(!names.texts_agree("192.0.2.1", "192.0.2.2"));
        assert!(names.texts_agree("2026-12-01T20:16:39+0000", "2027-01-01T00:00:00+0000"));
        assert!(!names.texts_agree("2026-12-01T20:16:39+0000", "soon"));
        assert_eq!(names.translate(&format!("{A},x")), format!("{B},x"));
    }

    #[test]
    fn database_numbers_map_only_where_a_text_shows_one() {
        let mut names = names();
        assert!(names.texts_agree("Unable to find rule: 4", "Unable to find rule: 9"));
        assert!(!names.texts_agree("Unable to find rule: 4", "Unable to find rule: 8"));
        assert!(!names.texts_agree("Unable to find rule: 5", "Unable to find rule: 9"));
        assert!(!names.texts_agree("Unable to find rule: 9", "Unable to find rule: 9"));
        assert!(names.texts_agree("for Instances [5, 6]", "for Instances [2, 3]"));
        assert!(!names.texts_agree("for Instances [5, 6]", "for Instances [2, 4]"));
        assert!(names.texts_agree("for LB rule:3", "for LB rule:1"));
        assert!(!names.texts_agree("port 80", "port 81"));
        assert!(!names.texts_agree("80", "81"));
    }

    #[test]
    fn a_cut_text_is_compared_as_far_as_it_goes() {
        let mut names = names();
        let cut = "10.0.0.0/24,10.0.…[5000 characters, cut by the recorder]";
        assert!(names.texts_agree(cut, "10.0.0.0/24,10.0.1.0/24"));
        assert!(!names.texts_agree(cut, "10.0.9.0/24,10.0.1.0/24"));
        assert!(!names.texts_agree(cut, "10.0.0.0/24"));
    }
}
