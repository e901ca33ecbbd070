//! `--controllers`: which controllers run.
//!
//! A list in which the first mention of a controller wins: `name` is on, `-name` is off, `*` is on
//! for all that are not named. Without `*` only those that are named run. Both names of a
//! controller are understood: older Go controllers know only the short ones.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::parse::nearest::nearest;

/// What can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Initialises Nodes and keeps their addresses and labels.
    CloudNode,
    /// Taints Nodes that are shut down and deletes those that are gone.
    CloudNodeLifecycle,
    /// Serves Services of type LoadBalancer.
    Service,
    /// Routes between Nodes: CloudStack has none to manage, so it never runs.
    Route,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::CloudNode, Self::CloudNodeLifecycle, Self::Service, Self::Route];

    /// The name that manifests use since Kubernetes 1.28.
    pub fn name(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node-controller",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-lb-controller",
            Self::Route => "node-route-controller",
        }
    }

    /// The name that manifests have always used; metrics too.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle",
            Self::Service => "service",
            Self::Route => "route",
        }
    }

    fn offered() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|controller| *controller != Self::Route)
    }

    fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|controller| controller.name() == name || controller.short_name() == name)
    }
}

/// The controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    enabled: BTreeSet<Controller>,
}

impl Controllers {
    /// Reads the values of `--controllers`, each a list separated by commas.
    ///
    /// # Errors
    /// [`UnknownControllers`] with every name that no controller has.
    pub fn parse<'a>(
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownControllers> {
        let mut decided: Vec<(Controller, bool)> = Vec::new();
        let mut all = false;
        let mut unknown = Vec::new();
        for entry in values.into_iter().flat_map(|value| value.split(',')).map(str::trim) {
            if entry == "*" {
                all = true;
                continue;
            }
            let name = entry.strip_prefix('-').unwrap_or(entry);
            match Controller::find(name) {
                Some(controller) => decided.push((controller, name == entry)),
                None => unknown.push(name.to_owned()),
            }
        }
        if !unknown.is_empty() {
            return Err(UnknownControllers(unknown));
        }
        let is_enabled = |controller: &Controller| {
            let first = decided.iter().find(|(named, _)| named == controller);
            first.map_or(all, |(_, on)| *on)
        };
        Ok(Self { enabled: Controller::offered().filter(is_enabled).collect() })
    }

    /// Whether a controller runs.
    pub fn runs(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }

    /// Those that run.
    pub fn enabled(&self) -> impl Iterator<Item = Controller> {
        self.enabled.iter().copied()
    }

    fn disabled(&self) -> impl Iterator<Item = Controller> {
        Controller::offered().filter(|controller| !self.runs(*controller))
    }
}

impl Default for Controllers {
    /// All that there is: `*`.
    fn default() -> Self {
        Self { enabled: Controller::offered().collect() }
    }
}

/// The line for the log.
impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.enabled.is_empty() {
            return f.write_str(
                "all controllers are disabled: `--controllers` switches none on; write \
                 `*,-service` for all but one, or `*` for all",
            );
        }
        write!(f, "controllers that run: {}", short_names(self.enabled()))?;
        let disabled = short_names(self.disabled());
        if disabled.is_empty() { Ok(()) } else { write!(f, "; disabled: {disabled}") }
    }
}

fn short_names(controllers: impl Iterator<Item = Controller>) -> String {
    controllers.map(Controller::short_name).collect::<Vec<_>>().join(", ")
}

/// Names in `--controllers` that no controller has; never empty.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct UnknownControllers(Vec<String>);

impl fmt::Display for UnknownControllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names) = self;
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{name:?} is not in the list of known controllers")?;
            let known = Controller::ALL.iter().flat_map(|known| [known.short_name(), known.name()]);
            if let Some(nearest) = nearest(name, known) {
                write!(f, "; the nearest is {nearest:?}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Controller::{CloudNode, CloudNodeLifecycle, Route, Service};

    fn running(value: &str) -> Vec<Controller> {
        Controllers::parse([value]).unwrap().enabled().collect()
    }

    #[test]
    fn the_first_mention_wins_and_a_star_stands_for_the_rest() {
        for (value, expected) in [
            ("*", vec![CloudNode, CloudNodeLifecycle, Service]),
            ("*,-service", vec![CloudNode, CloudNodeLifecycle]),
            ("-service,*", vec![CloudNode, CloudNodeLifecycle]),
            ("*, -service-lb-controller", vec![CloudNode, CloudNodeLifecycle]),
            ("-route,*", vec![CloudNode, CloudNodeLifecycle, Service]),
            ("service", vec![Service]),
            ("service-lb-controller", vec![Service]),
            ("cloud-node,cloud-node-lifecycle-controller", vec![CloudNode, CloudNodeLifecycle]),
            ("-service,service,*", vec![CloudNode, CloudNodeLifecycle]),
            ("service,-service-lb-controller", vec![Service]),
            ("-cloud-node", vec![]),
        ] {
            assert_eq!(running(value), expected, "{value}");
        }
    }

    #[test]
    fn values_of_several_flags_are_one_list() {
        let found = Controllers::parse(["*", "-cloud-node-lifecycle"]).unwrap();
        assert_eq!(found.enabled().collect::<Vec<_>>(), [CloudNode, Service]);
        assert_eq!(Controllers::parse(["*"]).unwrap(), Controllers::default());
    }

    #[test]
    fn both_names_of_every_controller_mean_it() {
        for controller in Controller::ALL {
            let expected = if controller == Route { vec![] } else { vec![controller] };
            assert_eq!(running(controller.name()), expected);
            assert_eq!(running(controller.short_name()), expected);
        }
    }

    #[test]
    fn routes_are_accepted_and_never_run() {
        for value in ["route", "node-route-controller", "*", "route,*"] {
            assert!(!Controllers::parse([value]).unwrap().runs(Route), "{value}");
        }
    }

    #[test]
    fn c078_the_log_names_what_is_disabled() {
        let line = |value: &str| Controllers::parse([value]).unwrap().to_string();
        for value in ["*,-service", "*,-service-lb-controller"] {
            assert_eq!(
                line(value),
                "controllers that run: cloud-node, cloud-node-lifecycle; disabled: service"
            );
        }
        assert_eq!(line("*"), "controllers that run: cloud-node, cloud-node-lifecycle, service");
        for value in ["-service", "route"] {
            assert!(line(value).starts_with("all controllers are disabled: "), "{value}");
        }
    }

    #[test]
    fn every_unknown_name_is_told_with_the_nearest_known_one() {
        let error = |value: &str| Controllers::parse([value]).unwrap_err().to_string();
        assert_eq!(
            error("*,-services,cloudnode"),
            "\"services\" is not in the list of known controllers; the nearest is \"service\"; \
             \"cloudnode\" is not in the list of known controllers; the nearest is \"cloud-node\""
        );
        for value in ["bogus", "", "*,", "-*", "--service", "Service"] {
            assert!(error(value).contains("is not in the list of known controllers"), "{value:?}");
        }
    }
}
