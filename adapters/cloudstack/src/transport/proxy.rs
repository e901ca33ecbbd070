//! Which proxy the environment names for an address. The HTTP client asks the same library; it goes
//! around what it can't read, and that is found out here.

use std::env;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

/// Host and port of the proxy on the way to `url`; `None` if none is named, or `url` is excepted.
///
/// # Errors
/// The variable that names a proxy that can't be used.
pub(super) fn proxy_for(url: &Url) -> Result<Option<String>, &'static str> {
    let own = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy"],
        _ => ["HTTP_PROXY", "http_proxy"],
    };
    let mut named = [own, ["ALL_PROXY", "all_proxy"]].into_iter().filter_map(first_set);
    let Some((variable, _)) = named.find(|(_, value)| !value.trim().is_empty()) else {
        return Ok(None);
    };
    let address: Uri = url.as_str().parse().map_err(|_| variable)?;
    if is_excepted(&address) {
        return Ok(None);
    }
    let intercept = Matcher::from_env().intercept(&address).ok_or(variable)?;
    authority(intercept.uri()).map(Some).ok_or(variable)
}

fn is_excepted(address: &Uri) -> bool {
    let Some((_, exceptions)) = first_set(["NO_PROXY", "no_proxy"]) else { return false };
    // The matcher takes this for the name of a domain, which an IP address has not.
    if exceptions.split(',').any(|exception| exception.trim() == "*") {
        return true;
    }
    let any = Matcher::builder().all("http://proxy.invalid").no(exceptions).build();
    any.intercept(address).is_none()
}

/// Host and port of a proxy that speaks HTTP.
fn authority(proxy: &Uri) -> Option<String> {
    let web = matches!(proxy.scheme_str(), None | Some("http" | "https"));
    let port = proxy.port().map_or_else(String::new, |port| format!(":{port}"));
    proxy.host().filter(|_| web).map(|host| format!("{host}{port}"))
}

/// The first of two variables that is there, also if it is empty.
fn first_set(names: [&'static str; 2]) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| Some((name, env::var(name).ok()?)))
}
