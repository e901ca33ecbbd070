//! Values as people write them: booleans, durations, the URL of the API.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The URL of the CloudStack API: `http` or `https`, a host, a path, nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiUrl {
    text: String,
    host: String,
    secure: bool,
}

impl ApiUrl {
    /// Checks a URL.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("its scheme is neither `https` nor `http`"),
        };
        if text.chars().any(|c| !c.is_ascii_graphic()) {
            return Err("it has blanks or characters outside of ASCII");
        }
        if text.contains(['?', '#']) {
            return Err("it has a query or fragment");
        }
        let (authority, _) =
            rest.split_once('/').ok_or("it has no path, which is usually `/client/api`")?;
        if authority.contains('@') {
            return Err("it holds a user name; the keys have settings of their own");
        }
        let host = host(authority)?;
        Ok(Self { text: text.to_owned(), host, secure })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.secure
    }

    /// Whether requests stay on this machine.
    pub fn is_loopback(&self) -> bool {
        let v4 = self.host.parse::<Ipv4Addr>();
        let v6 = self.host.parse::<Ipv6Addr>();
        self.host.eq_ignore_ascii_case("localhost")
            || v4.is_ok_and(|address| address.is_loopback())
            || v6.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn host(authority: &str) -> Result<String, &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or("a bracket is not closed")?;
            if address.parse::<Ipv6Addr>().is_err() {
                return Err("what stands in brackets is no IPv6 address");
            }
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or("its host can't be read")?),
            };
            (address, port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("it has no host");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if !host.chars().all(allowed) {
        return Err("its host can't be read");
    }
    match port.map(str::parse::<u16>) {
        None => Ok(host.to_owned()),
        Some(Ok(port)) if port > 0 => Ok(host.to_owned()),
        Some(_) => Err("its port is not one from 1 to 65535"),
    }
}

/// A boolean as gcfg reads it, in any case.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A duration as Go writes it: `30s`, `1h30m`, `1.5s`, `500ms`. Whole milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let unit: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(milliseconds(number, unit)?)?;
        rest = next;
    }
    Some(total)
}

fn milliseconds(number: &str, unit: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 6 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut millis = whole.checked_mul(unit)?;
    if !fraction.is_empty() {
        let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part: u64 = fraction.parse().ok()?;
        millis = millis.checked_add(part.checked_mul(unit)?.checked_div(scale)?)?;
    }
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("500ms", 500),
            ("10m0s", 600_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "30", "s", "30 s", "-1s", "1d", ".5s", "99999999999999999999s", "1..5s", "10m5"]
        {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_url_has_scheme_host_and_path() {
        for (text, host) in [
            ("https://cloud.example.com/client/api", "cloud.example.com"),
            ("http://127.0.0.1:8080/client/api", "127.0.0.1"),
            ("https://[2001:db8::1]:8443/", "2001:db8::1"),
            ("HTTPS://h/x", "h"),
        ] {
            assert_eq!(ApiUrl::parse(text).unwrap().host(), host, "{text}");
        }
        for text in [
            "",
            "cloud.example.com/client/api",
            "ftp://h/x",
            "https://h",
            "https:///x",
            "https://u:p@h/x",
            "https://h:0/x",
            "https://h:70000/x",
            "https://h/x?a=b",
            "https://h /x",
            "https://[::1/x",
            "https://[x]/x",
            "https://[::1]x/x",
        ] {
            assert!(ApiUrl::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let loopback = |text: &str| ApiUrl::parse(text).unwrap().is_loopback();
        assert!(
            loopback("http://localhost/x")
                && loopback("http://127.8.0.1/x")
                && loopback("http://[::1]/x")
        );
        assert!(!loopback("http://localhost.example.com/x") && !loopback("http://10.0.0.1/x"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), short in "[0-9.msh:/@\\[\\]]{0,12}") {
            for text in [text.as_str(), short.as_str()] {
                let _ = (duration(text), boolean(text), ApiUrl::parse(text));
                let _ = ApiUrl::parse(&format!("https://{text}/"));
            }
        }
    }
}
