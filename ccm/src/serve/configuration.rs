//! The JSON of `/configz`: flags under the key of Go's controllers, settings under our own. It
//! holds no secret.

use std::collections::BTreeMap;

use ccm_core::controllers::Controller;
use ccm_core::debounce::Windows;
use serde_json::{Value, json};

use crate::cli::{ControllerOptions, ElectionOptions, ServingOptions};
use crate::config::Config;

/// What the controller works with.
pub fn configz(options: &ControllerOptions, config: &Config) -> String {
    let set = config.effective.iter();
    let settings: BTreeMap<String, &str> =
        set.map(|effective| (effective.setting.to_string(), effective.value.as_str())).collect();
    let page = json!({
        "cloudcontrollermanager.config.k8s.io": flags(options),
        "cloudstack-ccm": { "version": env!("CARGO_PKG_VERSION"), "settings": settings },
    });
    page.to_string()
}

fn flags(options: &ControllerOptions) -> Value {
    let ControllerOptions {
        kubeconfig: _,
        master: _,
        controllers,
        dry_run,
        service_syncs,
        node_syncs,
        node_status_updates,
        node_status_period,
        node_monitor_period,
        drift_interval,
        windows: Windows { added, removed },
        election,
        serving,
        collector,
    } = options;
    let lease = |lease: &ElectionOptions| {
        let ElectionOptions { timing: _, namespace, name } = lease;
        json!({ "namespace": namespace, "name": name })
    };
    let address = |ServingOptions { address, .. }: &ServingOptions| address.to_string();
    json!({
        "controllers": controllers.enabled().map(Controller::short_name).collect::<Vec<_>>(),
        "dryRun": dry_run,
        "concurrentServiceSyncs": service_syncs,
        "concurrentNodeSyncs": node_syncs,
        "concurrentNodeStatusUpdates": node_status_updates,
        "nodeStatusUpdateFrequency": format!("{node_status_period:?}"),
        "nodeMonitorPeriod": format!("{node_monitor_period:?}"),
        "driftInterval": format!("{drift_interval:?}"),
        "nodeAddedWindow": format!("{added:?}"),
        "nodeRemovedWindow": format!("{removed:?}"),
        "lease": election.as_ref().map(lease),
        "address": serving.as_ref().map(address),
        "otlpEndpoint": collector.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::Cli;
    use crate::config::Overrides;

    #[test]
    fn what_holds_is_shown_without_secrets() {
        let flags = ["cloudstack-ccm", "--dry-run", "--controllers=service"].map(OsString::from);
        let options = Cli::read(flags).unwrap().controller.options().unwrap();
        let file = "[Global]\napi-url = https://cloud.example.com/client/api\n\
                    api-key = AKtest-0123\nsecret-key = SKsecret-4242\ncluster-id = prod\n";
        let (config, _) = Config::read(file, &BTreeMap::new(), &Overrides::default()).unwrap();
        let page = configz(&options, &config);
        assert!(!page.contains("AKtest") && !page.contains("SKsecret"), "{page}");
        let page: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(page["cloudstack-ccm"]["settings"]["cluster-id"], "prod");
        let flags = &page["cloudcontrollermanager.config.k8s.io"];
        assert_eq!(flags["controllers"], json!(["service"]));
        assert_eq!(flags["lease"]["name"], "cloudstack-ccm-dry-run");
        assert_eq!(flags["nodeStatusUpdateFrequency"], "300s");
    }
}
