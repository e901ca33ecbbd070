//! Who sends a request: the signature over its parameters and the time until which it holds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha1::Sha1;

use crate::message::Request;

/// Whether the request is signed with this secret key (`ApiServer.verifyRequest`).
pub(crate) fn signed_with(request: &Request, secret_key: &str) -> bool {
    let Some(signature) = request.param("signature") else {
        return false;
    };
    let Ok(given) = STANDARD.decode(signature) else {
        return false;
    };
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(secret_key.as_bytes()) else {
        return false;
    };
    mac.update(string_to_sign(request).as_bytes());
    mac.verify_slice(&given).is_ok()
}

/// Signs a request.
#[cfg(test)]
pub(crate) fn sign(request: &mut Request, secret_key: &str) {
    let mut mac = Hmac::<Sha1>::new_from_slice(secret_key.as_bytes()).unwrap();
    mac.update(string_to_sign(request).as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    request.params.push(("signature".to_owned(), signature));
}

/// Whether `expires` allows the request now. It is looked at only with `signatureversion=3`, and
/// then must be there, carry an offset and not lie in the past; there is no leeway and no upper
/// bound.
pub(crate) fn in_time(request: &Request, now: Timestamp) -> bool {
    if request.param("signatureversion") != Some("3") {
        return true;
    }
    request
        .param("expires")
        .and_then(|text| text.parse::<Timestamp>().ok())
        .is_some_and(|expires| expires >= now)
}

/// Names in their original case and order of code units, unencoded; values encoded; all in lower
/// case.
fn string_to_sign(request: &Request) -> String {
    let mut params: Vec<&(String, String)> =
        request.params.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("signature")).collect();
    params.sort_by_cached_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
    let pairs: Vec<String> =
        params.into_iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&").to_lowercase()
}

/// The rules of Java's `URLEncoder` with `%20` for a blank: `*` stays, `~` does not.
fn encoded(value: &str) -> String {
    value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'*' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Method;

    const SECRET: &str = "SKsecret_42";

    #[test]
    fn first_known_vector_is_accepted() {
        let request = request(&[
            ("apikey", "AKtest-01_x"),
            ("command", "listZones"),
            ("response", "json"),
            ("signature", "rzej8iHrHymLk+SNqeb60Ke6uWY="),
        ]);
        assert_eq!(string_to_sign(&request), "apikey=aktest-01_x&command=listzones&response=json");
        assert!(signed_with(&request, SECRET));
        assert!(!signed_with(&request, "another"));
    }

    #[test]
    fn second_known_vector_with_odd_characters_is_accepted() {
        let request = request(&[
            ("command", "createTags"),
            ("resourcetype", "LoadBalancer"),
            ("resourceids", "7f3c1a52-0b0e-4c57-9e1b-2d3f4a5b6c7d"),
            ("tags[0].key", "kubernetes.io/cluster"),
            ("tags[0].value", "a b*~[c]+d,é"),
            ("apikey", "AKtest-01_x"),
            ("response", "json"),
            ("signatureversion", "3"),
            ("expires", "2026-08-21T10:00:00+0000"),
            ("signature", "PQaV8/AnLyBWZkrcGfvBlGyl8uI="),
        ]);
        assert!(signed_with(&request, SECRET));
    }

    #[test]
    fn expires_needs_an_offset_and_the_future() {
        let now = "2026-08-21T10:00:00Z".parse().unwrap();
        let holds = |expires: &str| {
            in_time(&request(&[("signatureVersion", "3"), ("expires", expires)]), now)
        };
        assert!(holds("2026-08-21T10:05:00+0000"));
        assert!(holds("2026-08-21T10:05:00+00:00"));
        assert!(holds("2026-08-21T12:05:00+0200"));
        assert!(holds("2026-08-21T10:05:00.123Z"));
        assert!(holds("2026-08-22T10:00:00Z"));
        assert!(!holds("2026-08-21T09:59:59Z"));
        assert!(!holds("2026-08-21T10:05:00"));
        assert!(!holds("soon"));
        assert!(!holds(""));
        assert!(!in_time(&request(&[("signatureversion", "3")]), now));
        assert!(in_time(&request(&[("expires", "2020-01-01T00:00:00Z")]), now));
    }

    fn request(params: &[(&str, &str)]) -> Request {
        Request {
            method: Method::Get,
            params: params
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }
}
