//! Compares a recorded answer with a given one.

use serde_json::{Map, Value};

use super::names::Names;

/// Lists whose order means nothing, because CloudStack keeps them in hash sets or lists them by
/// nothing that an answer shows.
const UNORDERED: &[&str] = &["capability", "service", "tag", "tags"];

/// What tells the entries of such lists apart.
const ENTRY_NAMES: &[&str] = &["name", "key", "resourceid"];

/// How a text begins to say that the recorder cut it.
const CUT_TEXT: &str = "…[";

/// Keys of numbers of milliseconds: times, which differ in any other run.
const TIMES: &[&str] = &["expireAfter"];

/// A list that the recorder cut ends in an entry that says so.
const CUT_LIST: &str = "entries, cut by the recorder";

/// A difference at one place of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path to the value, such as `listzonesresponse.zone[0].name`.
    pub place: String,
    /// What the recording has.
    pub recorded: String,
    /// What the simulator gave.
    pub given: String,
}

/// The body of an answer: an object if it is JSON or XML, else a text.
pub(super) fn parsed(body: &str) -> Value {
    let json = serde_json::from_str(body).ok();
    json.or_else(|| xml(body)).unwrap_or_else(|| Value::String(body.to_owned()))
}

/// An XML document as an object: elements by name, and in their order where several have one name.
/// Attributes count as texts. The order of different elements means nothing.
fn xml(text: &str) -> Option<Value> {
    let (_, mut rest) = text.strip_prefix("<?xml")?.split_once("?>")?;
    Some(Value::Object(elements(&mut rest)))
}

fn elements(rest: &mut &str) -> Map<String, Value> {
    let mut found: Map<String, Value> = Map::new();
    while let Some((head, after)) = rest.strip_prefix('<').and_then(|open| open.split_once('>')) {
        if head.starts_with('/') {
            break;
        }
        *rest = after;
        let (name, attributes) = head.split_once(' ').unwrap_or((head, ""));
        let mut inner = elements(rest);
        let (content, after) = rest.split_once("</").unwrap_or((rest, ""));
        *rest = after.split_once('>').map_or("", |(_, after)| after);
        for (key, value) in [("attributes", attributes), ("text", content)] {
            if !value.is_empty() {
                inner.insert(key.to_owned(), value.into());
            }
        }
        let all = found.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(all) = all.as_array_mut() {
            all.push(inner.into());
        }
    }
    found
}

/// All differences; `names` learn what stands for what.
pub(super) fn differences(names: &mut Names, recorded: &Value, given: &Value) -> Vec<Difference> {
    let mut comparison = Comparison { names, partial: false, found: Vec::new() };
    comparison.values("", recorded, given);
    comparison.found
}

/// The same for two bodies. Of an XML document that the recorder cut, what is there is compared.
pub(super) fn body_differences(
    names: &mut Names,
    recorded: &Value,
    given: &str,
) -> Vec<Difference> {
    let text = recorded.as_str();
    let partial = text.is_some_and(|text| text.starts_with("<?xml") && text.contains(CUT_TEXT));
    let document = text.map(parsed);
    let mut comparison = Comparison { names, partial, found: Vec::new() };
    comparison.values("", document.as_ref().unwrap_or(recorded), &parsed(given));
    comparison.found
}

struct Comparison<'a> {
    names: &'a mut Names,
    /// Whether the recorded value is only the beginning of what there was.
    partial: bool,
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
                        Some(given) if TIMES.contains(&key.as_str()) && given.is_number() => {}
                        Some(given) => self.values(&place, recorded, given),
                        None if self.partial && recorded.to_string().contains(CUT_TEXT) => {}
                        None => self.differ(&place, &recorded.to_string(), "nothing"),
                    }
                }
                let more = here.iter().filter(|(key, _)| !there.contains_key(*key));
                let partial = self.partial;
                for (key, given) in more.filter(|_| !partial) {
                    self.differ(&join(place, key), "nothing", &given.to_string());
                }
                true
            }
            (Value::Array(there), Value::Array(here))
                if self.partial && there.len() < here.len() =>
            {
                self.values(place, recorded, &here.iter().take(there.len()).cloned().collect());
                true
            }
            (Value::String(there), _) if self.partial && there.contains(CUT_TEXT) => true,
            (Value::Array(there), Value::Array(here)) => {
                let kept = kept_entries(there);
                let is_cut = kept.len() < there.len();
                let fits = kept.len() == here.len() || (is_cut && kept.len() < here.len());
                for (at, (recorded, given)) in kept.iter().zip(here).enumerate().filter(|_| fits) {
                    self.values(&format!("{place}[{at}]"), recorded, given);
                }
                fits
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

/// The entries of a list without the one that says that the recorder cut it.
fn kept_entries(list: &[Value]) -> &[Value] {
    match list.split_last() {
        Some((end, kept)) if is_cut_mark(end) => kept,
        _ => list,
    }
}

fn is_cut_mark(entry: &Value) -> bool {
    let text = entry.get("name").unwrap_or(entry).as_str();
    text.is_some_and(|text| text.ends_with(CUT_LIST))
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
        let names = ENTRY_NAMES.iter().filter_map(|key| entry.get(*key));
        names.map(ToString::to_string).collect::<Vec<_>>()
    };
    entries.sort_by_cached_key(name);
    entries.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(recorded: &Value, given: &Value) -> Vec<String> {
        let found = differences(&mut Names::default(), recorded, given);
        found.into_iter().map(|difference| difference.place).collect()
    }

    #[test]
    fn missing_added_and_other_values_are_found_with_their_place() {
        let recorded = json!({"a": {"count": 1, "row": [{"id": 1, "name": "x"}]}});
        let given = json!({"a": {"count": 1, "row": [{"id": "1", "more": true}]}});
        assert_eq!(places(&recorded, &given), ["a.row[0].id", "a.row[0].name", "a.row[0].more"]);
        assert_eq!(places(&recorded, &json!({"a": {"count": 1, "row": []}})), ["a.row"]);
        assert_eq!(places(&recorded, &recorded), [""; 0]);
    }

    #[test]
    fn order_counts_but_in_hash_sets() {
        let [a, b] = [json!({"name": "a"}), json!({"name": "b"})];
        assert_eq!(places(&json!({"service": [a, b]}), &json!({"service": [b, a]})), [""; 0]);
        assert_eq!(places(&json!({"nic": [a, b]}), &json!({"nic": [b, a]})).len(), 2);
    }

    #[test]
    fn xml_is_compared_without_the_order_of_its_elements() {
        let one = parsed(r#"<?xml version="1.0"?><r v="1"><a>1</a><b><c>x</c></b><a>2</a></r>"#);
        let same = parsed(r#"<?xml version="1.0"?><r v="1"><b><c>x</c></b><a>1</a><a>2</a></r>"#);
        let other = parsed(r#"<?xml version="1.0"?><r v="1"><b><c>y</c></b><a>2</a><a>1</a></r>"#);
        assert_eq!(places(&one, &same), [""; 0]);
        assert_eq!(
            places(&one, &other),
            ["r[0].a[0].text", "r[0].a[1].text", "r[0].b[0].c[0].text"]
        );
        assert_eq!(parsed("no document"), Value::from("no document"));
    }

    #[test]
    fn a_cut_document_is_compared_as_far_as_it_goes() {
        let cut =
            r#"<?xml version="1.0"?><r><a>1</a><b>2</b><c…[99 characters, cut by the recorder]"#;
        let places = |given: &str| {
            let found = body_differences(&mut Names::default(), &cut.into(), given);
            found.into_iter().map(|difference| difference.place).collect::<Vec<_>>()
        };
        let whole = r#"<?xml version="1.0"?><r><b>2</b><a>1</a><d>3</d></r>"#;
        assert_eq!(places(whole), [""; 0]);
        assert_eq!(places(&whole.replace('2', "9")), ["r[0].b[0].text"]);
    }

    #[test]
    fn of_a_cut_list_the_entries_that_are_there_are_compared() {
        let cut = json!({"api": [{"name": "a"}, {"name": "… 384 entries, cut by the recorder"}]});
        let places = |given: Value| places(&cut, &json!({"api": given}));
        assert_eq!(places(json!([{"name": "a"}])), [""; 0]);
        assert_eq!(places(json!([{"name": "a"}, {"name": "b"}])), [""; 0]);
        assert_eq!(places(json!([{"name": "z"}])), ["api[0].name"]);
        assert_eq!(places(json!([])), ["api"]);
    }
}
