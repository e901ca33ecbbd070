//! Credentials, and how they are kept out of every text.

use std::fmt;

use crate::sign::encode_value;

/// What stands in a text where a secret stood.
pub(crate) const REMOVED: &str = "[removed]";

/// Shorter texts are no secrets: removing them would only damage what people read.
const SHORTEST: usize = 8;

/// The key pair of a user. It has no `Display`, and its `Debug` shows nothing.
#[derive(Clone)]
pub struct Credentials {
    api_key: String,
    secret_key: String,
}

impl Credentials {
    /// The pair as registerUserKeys or getUserKeys gave it; blanks around it are dropped.
    pub fn new(api_key: &str, secret_key: &str) -> Self {
        Self { api_key: api_key.trim().to_owned(), secret_key: secret_key.trim().to_owned() }
    }

    pub(crate) fn api_key(&self) -> &str {
        &self.api_key
    }

    pub(crate) fn secret_key(&self) -> &str {
        &self.secret_key
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(removed)")
    }
}

/// Takes the secrets of one request out of what the server answered to it.
pub(crate) struct Redactor {
    needles: Vec<String>,
}

impl Redactor {
    /// For the credentials and the signature of a request.
    pub(crate) fn new(credentials: &Credentials, signature: &str) -> Self {
        // Serializers escape `=` in a JSON text; the rest of a signature identifies it as well.
        let secrets =
            [credentials.api_key(), credentials.secret_key(), signature.trim_end_matches('=')];
        let mut needles = Vec::new();
        for secret in secrets.into_iter().filter(|text| text.len() >= SHORTEST) {
            needles.push(secret.to_owned());
            for other in [
                encode_value(secret),
                encode_value(secret).to_ascii_lowercase(),
                secret.to_ascii_lowercase(),
                secret.replace('/', "\\/"),
            ] {
                if !needles.contains(&other) {
                    needles.push(other);
                }
            }
        }
        Self { needles }
    }

    /// The body without secrets. It stays valid JSON: no needle holds a quote.
    pub(crate) fn clean_body(&self, body: String) -> String {
        let mut clean = body;
        for needle in &self.needles {
            if clean.contains(needle.as_str()) {
                clean = clean.replace(needle.as_str(), REMOVED);
            }
        }
        clean
    }
}

/// A server's words, fit for an error or a log: no echo of a signed request, no line ends, at most
/// `length` characters.
pub(crate) fn quotable(text: &str, length: usize) -> String {
    // Bodies can be large; what is removed below makes room for a little more than `length`.
    let flat: String = text
        .chars()
        .take(length.saturating_mul(2).saturating_add(200))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let flat = without_echo(flat.trim());
    let mut short: String = flat.chars().take(length).collect();
    if short.len() < flat.len() {
        short.push('…');
    }
    short
}

/// Blanks out the values of `apikey` and `signature` wherever they look like parameters.
fn without_echo(text: &str) -> String {
    let mut rest = text;
    let mut clean = String::with_capacity(text.len());
    while let Some((end, value)) = next_echo(rest) {
        let (before, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        clean.push_str(before);
        clean.push_str(REMOVED);
        rest = after.get(value..).unwrap_or_default();
    }
    clean.push_str(rest);
    clean
}

/// Where the next such value begins, and how long it is.
fn next_echo(text: &str) -> Option<(usize, usize)> {
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    loop {
        let tail = lower.get(from..)?;
        let (name, at) = ["apikey", "signature", "secretkey", "sessionkey"]
            .iter()
            .filter_map(|name| tail.find(name).map(|at| (*name, at)))
            .min_by_key(|(_, at)| *at)?;
        let after_name = from + at + name.len();
        let rest = lower.get(after_name..)?;
        let separator: usize = rest
            .chars()
            .take_while(|c| matches!(c, '=' | ':' | '"' | '\'' | ' ' | '>'))
            .map(char::len_utf8)
            .sum();
        let has_sign = rest.get(..separator).is_some_and(|text| text.contains(['=', ':', '>']));
        let value: usize = rest
            .get(separator..)?
            .chars()
            .take_while(|c| !matches!(c, '&' | '"' | '\'' | '<' | '>' | ' ' | ',' | ';' | '}'))
            .map(char::len_utf8)
            .sum();
        if has_sign && value > 0 {
            return Some((after_name + separator, value));
        }
        from = after_name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let credentials = Credentials::new(" AKtest-01_x ", "SK/secret+42");
        Redactor::new(&credentials, "PQaV8/AnLyBWZkrcGfvBlGyl8uI=")
    }

    #[test]
    fn every_spelling_of_a_secret_is_removed() {
        for spelling in [
            "AKtest-01_x",
            "aktest-01_x",
            "SK/secret+42",
            "SK%2Fsecret%2B42",
            "sk%2fsecret%2b42",
            "PQaV8/AnLyBWZkrcGfvBlGyl8uI=",
            "PQaV8%2FAnLyBWZkrcGfvBlGyl8uI%3D",
            "PQaV8\\/AnLyBWZkrcGfvBlGyl8uI\\u003d",
        ] {
            let clean = redactor().clean_body(format!("{{\"a\":\"x {spelling} y\"}}"));
            assert!(clean.contains(REMOVED), "{spelling}: {clean}");
            assert!(!clean.to_lowercase().contains("aktest"), "{clean}");
            assert!(!clean.contains("secret"), "{clean}");
            assert!(!clean.contains("AnLyBWZ"), "{clean}");
        }
    }

    #[test]
    fn short_keys_do_not_damage_bodies() {
        let redactor = Redactor::new(&Credentials::new("id", "name"), "");
        assert_eq!(redactor.clean_body("{\"id\":1}".to_owned()), "{\"id\":1}");
    }

    #[test]
    fn echoed_parameters_are_removed_and_words_stay() {
        assert_eq!(
            quotable("GET /client/api?apiKey=abc&signature=d%2Fe&command=x", 200),
            "GET /client/api?apiKey=[removed]&signature=[removed]&command=x"
        );
        assert_eq!(
            quotable("unable to verify user credentials and/or request signature", 200),
            "unable to verify user credentials and/or request signature"
        );
        assert_eq!(quotable("{\"apikey\": \"abc\"}", 99), "{\"apikey\": \"[removed]\"}");
        assert_eq!(
            quotable("signature=é&é=signature: ü", 99),
            "signature=[removed]&é=signature: [removed]"
        );
    }

    #[test]
    fn long_texts_are_cut_and_flattened() {
        assert_eq!(quotable("a\nb\tcdef", 4), "a b …");
    }

    #[test]
    fn credentials_have_nothing_to_show() {
        let shown = format!("{:?}", Credentials::new("AKtest-01_x", "SKsecret_42"));
        assert_eq!(shown, "Credentials(removed)");
    }
}
