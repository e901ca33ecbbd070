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
    code(request, secret_key).is_some_and(|code| code.verify_slice(&given).is_ok())
}

/// The signature of a request.
#[cfg(test)]
pub(crate) fn signature(request: &Request, secret_key: &str) -> String {
    let code = code(request, secret_key).unwrap();
    STANDARD.encode(code.finalize().into_bytes())
}

fn code(request: &Request, secret_key: &str) -> Option<Hmac<Sha1>> {
    let mut code = Hmac::<Sha1>::new_from_slice(secret_key.as_bytes()).ok()?;
    code.update(string_to_sign(request).as_bytes());
    Some(code)
}

/// The time of `expires`, if it has one of the forms that CloudStack reads: ISO 8601 with an offset.
pub(crate) fn expires(request: &Request) -> Option<Timestamp> {
    request.param("expires")?.parse().ok()
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
    fn expires_needs_an_offset() {
        let read = |text: &str| expires(&request(&[("expires", text)]));
        let ten = "2026-08-21T10:05:00Z".parse().ok();
        assert_eq!(read("2026-08-21T10:05:00+0000"), ten);
        assert_eq!(read("2026-08-21T10:05:00+00:00"), ten);
        assert_eq!(read("2026-08-21T12:05:00+0200"), ten);
        assert_eq!(read("2026-08-21T10:05:00.000Z"), ten);
        assert_eq!(read("2026-08-21T10:05:00"), None);
        assert_eq!(read("soon"), None);
        assert_eq!(read(""), None);
        assert_eq!(expires(&request(&[])), None);
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
