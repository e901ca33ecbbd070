//! The proxy on the way to the API server, as kubectl chooses it: `proxy-url` of the kubeconfig, else
//! what `HTTPS_PROXY` names, unless `NO_PROXY` excepts the API server. kube would ask `NO_PROXY` about
//! the address of the proxy.

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;

/// The proxy on the way to an API server.
///
/// # Errors
/// Host and port of a proxy that can't be used: the rest of its URL may hold a password.
pub(super) fn on_the_way_to(
    api_server: &Uri,
    of_kubeconfig: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, String> {
    let of_environment = |names: [&str; 2]| {
        names.into_iter().filter_map(&variable).find(|value| !value.trim().is_empty())
    };
    let named = match of_kubeconfig.filter(|url| !url.is_empty()) {
        Some(url) => Some(url.to_owned()),
        None => of_environment(["HTTPS_PROXY", "https_proxy"]).filter(|_| {
            let exceptions = of_environment(["NO_PROXY", "no_proxy"]).unwrap_or_default();
            !is_excepted(api_server, exceptions)
        }),
    };
    named.map(|url| usable(&url)).transpose()
}

/// `proxy-url` of the cluster that a context, or the current one, names.
pub(super) fn of_kubeconfig<'a>(file: &'a Kubeconfig, context: Option<&str>) -> Option<&'a str> {
    let name = context.or(file.current_context.as_deref())?;
    let context = file.contexts.iter().find(|context| context.name == name)?.context.as_ref()?;
    let cluster = file.clusters.iter().find(|cluster| cluster.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_deref()
}

fn is_excepted(address: &Uri, exceptions: String) -> bool {
    // The matcher takes this for the name of a domain, which an IP address has not.
    if exceptions.split(',').any(|exception| exception.trim() == "*") {
        return true;
    }
    let any = Matcher::builder().all("http://proxy.invalid").no(exceptions).build();
    any.intercept(address).is_none()
}

fn usable(url: &str) -> Result<Uri, String> {
    let Ok(proxy) = url.parse::<Uri>() else { return Err("(hidden here)".to_owned()) };
    if proxy.scheme().is_some_and(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme)) {
        return Ok(proxy);
    }
    let host = proxy.host().unwrap_or_default();
    let port = proxy.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    Err(format!("{host}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(of_kubeconfig: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let api_server = "https://10.1.2.3:6443".parse().unwrap();
        let proxy = on_the_way_to(&api_server, of_kubeconfig, variable).unwrap();
        proxy.map(|proxy| proxy.authority().unwrap().to_string())
    }

    #[test]
    fn the_kubeconfig_counts_before_the_environment() {
        let environment = [("HTTPS_PROXY", "http://env:1"), ("NO_PROXY", "10.0.0.0/8")];
        assert_eq!(chosen(Some("http://own:2"), &environment).as_deref(), Some("own:2"));
        assert_eq!(chosen(Some(""), &environment[..1]).as_deref(), Some("env:1"));
        assert_eq!(chosen(None, &[("https_proxy", "http://env:1")]).as_deref(), Some("env:1"));
        assert_eq!(chosen(None, &[("HTTPS_PROXY", "")]), None);
    }

    #[test]
    fn no_proxy_excepts_the_api_server_and_not_the_proxy() {
        let chosen = |no: &str| {
            chosen(None, &[("HTTPS_PROXY", "http://192.168.0.9:3128"), ("NO_PROXY", no)]).is_some()
        };
        for excepted in ["10.1.2.3", "10.0.0.0/8", "other.example, 10.1.2.3", "*"] {
            assert!(!chosen(excepted), "{excepted}");
        }
        for other in ["192.168.0.9", "192.168.0.0/16", "example.com", ""] {
            assert!(chosen(other), "{other}");
        }
    }

    #[test]
    fn the_proxy_of_a_kubeconfig_is_that_of_its_cluster() {
        let file: Kubeconfig = serde_json::from_str(
            r#"{"current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "a"}}, {"name": "y", "context": {"cluster": "b"}}],
                "clusters": [{"name": "a", "cluster": {"proxy-url": "http://p:1"}}, {"name": "b", "cluster": {}}]}"#,
        )
        .unwrap();
        assert_eq!(of_kubeconfig(&file, None), Some("http://p:1"));
        assert_eq!(of_kubeconfig(&file, Some("y")), None);
    }

    #[test]
    fn a_proxy_that_is_none_is_named_without_its_password() {
        for (url, shown) in [
            ("ftp://me:passw0rd@10.0.0.9:21", "10.0.0.9:21"),
            ("socks5://me:passw0rd@10.0.0.9", "10.0.0.9"),
            ("me:passw0rd@10.0.0.9:3128", "10.0.0.9:3128"),
            ("http://me:passw0rd@a b", "(hidden here)"),
        ] {
            assert_eq!(usable(url).unwrap_err(), shown);
        }
        assert!(usable("http://me:passw0rd@10.0.0.9:3128").is_ok());
    }
}
