//! Changes of bytes, as broken disks, editors, copies and liars make them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A change of some bytes.
#[derive(Clone, Debug)]
pub enum Garble {
    /// They end early.
    Cut(Index),
    /// A bit is the other way round.
    Flip(Index, u8),
    /// Something stands in between.
    Insert(Index, &'static [u8]),
    /// A part stands there twice.
    Double(Index, Index),
    /// A part is not there.
    Drop(Index, Index),
    /// A byte order mark stands in front.
    Bom,
    /// Lines end as on Windows.
    Crlf,
    /// Nesting of many levels begins.
    Nest(Index, &'static [u8], usize),
}

/// What is put in between: marks of encodings, ends of texts, numbers without measure.
const STRANGE: &[&[u8]] = &[
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\0",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\"",
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b":",
    b": ",
    b",",
    b"=",
    b"[",
    b"{",
    b"]",
    b"}",
    b"<",
    b"&a *a",
    b"- ",
    b"---\n",
    b"!!binary ",
    b"-1",
    b"99999999999999999999",
    b"1e999",
    b"null",
    b"true",
    b"\xe2\x80\xae",
];

/// One to four changes.
pub fn garbles() -> impl Strategy<Value = Vec<Garble>> {
    let at = any::<Index>;
    let opening = select(vec![&b"["[..], b"{\"a\":", b"- ", b"[Global]\n", b"\""]);
    let change = prop_oneof![
        2 => at().prop_map(Garble::Cut),
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Garble::Flip(at, bit)),
        4 => (at(), select(STRANGE.to_vec())).prop_map(|(at, what)| Garble::Insert(at, what)),
        2 => (at(), at()).prop_map(|(from, to)| Garble::Double(from, to)),
        2 => (at(), at()).prop_map(|(from, to)| Garble::Drop(from, to)),
        1 => Just(Garble::Crlf),
        1 => (at(), opening, 1..3000_usize)
            .prop_map(|(at, what, levels)| Garble::Nest(at, what, levels)),
        1 => Just(Garble::Bom),
    ];
    vec(change, 1..5)
}

/// The bytes, changed.
pub fn garble(bytes: &[u8], changes: &[Garble]) -> Vec<u8> {
    changes.iter().fold(bytes.to_vec(), |bytes, change| changed(&bytes, change))
}

fn changed(bytes: &[u8], change: &Garble) -> Vec<u8> {
    let place = |at: &Index| at.index(bytes.len() + 1);
    let part = |from: &Index, to: &Index| {
        let (from, to) = (place(from), place(to));
        (from.min(to), from.max(to))
    };
    let with = |at: usize, what: &[u8]| [&bytes[..at], what, &bytes[at..]].concat();
    match change {
        Garble::Cut(at) => bytes[..place(at)].to_vec(),
        Garble::Flip(at, bit) => {
            let mut bytes = bytes.to_vec();
            let length = bytes.len();
            if length > 0 {
                bytes[at.index(length)] ^= 1 << bit;
            }
            bytes
        }
        Garble::Insert(at, what) => with(place(at), what),
        Garble::Double(from, to) => {
            let (from, to) = part(from, to);
            with(to, &bytes[from..to])
        }
        Garble::Drop(from, to) => {
            let (from, to) = part(from, to);
            [&bytes[..from], &bytes[to..]].concat()
        }
        Garble::Bom => with(0, b"\xef\xbb\xbf"),
        Garble::Crlf => bytes
            .iter()
            .flat_map(|byte| if *byte == b'\n' { vec![b'\r', b'\n'] } else { vec![*byte] })
            .collect(),
        Garble::Nest(at, what, levels) => with(place(at), &what.repeat(*levels)),
    }
}
