//! What a request to CloudStack says.

use ccm_simulator::Request;

/// The value of a parameter.
pub fn param<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The command.
pub fn command(request: &Request) -> &str {
    param(request, "command").unwrap_or_default()
}

/// All parameters but those that only sign it.
pub fn told(request: &Request) -> String {
    let signing = ["apiKey", "signature", "signatureversion", "expires", "response", "command"];
    let params = request.params.iter().filter(|(name, _)| !signing.contains(&name.as_str()));
    params.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}
