//! Who a caller is and what it may do, as the API server says (`TokenReview`, `SubjectAccessReview`).

use std::collections::BTreeMap;

use ccm_core::exec::error::CallError;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

use super::call_error;

/// A caller, as it is known and as it is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// `username`.
    pub name: String,
    /// `uid`.
    pub uid: Option<String>,
    /// `groups`.
    pub groups: Vec<String>,
    /// `extra`: what an authorizer may want to know besides.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Asks the API server about callers.
pub struct Reviewer {
    client: Client,
}

impl Reviewer {
    /// Asks that client's API server.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// What the cluster says of who vouches for callers: the keys of `ConfigMap`
    /// kube-system/extension-apiserver-authentication.
    ///
    /// # Errors
    /// [`CallError`] if the API server can't be asked.
    pub async fn vouchers(&self) -> Result<BTreeMap<String, String>, CallError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "kube-system");
        let map = maps.get("extension-apiserver-authentication").await;
        let map = map.map_err(|error| call_error("get configmaps", &error))?;
        Ok(map.data.unwrap_or_default())
    }

    /// Whose a bearer token is; `None` if it is nobody's.
    ///
    /// # Errors
    /// [`CallError`] if the API server can't be asked.
    pub async fn user(&self, token: &str) -> Result<Option<User>, CallError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| call_error("create tokenreviews", &error))?;
        let status = answer.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        Ok(user.map(|user| User {
            name: user.username.unwrap_or_default(),
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    /// Whether a caller may use a path of this process (`verb` in lower case, as `get`).
    ///
    /// # Errors
    /// [`CallError`] if the API server can't be asked.
    pub async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, CallError> {
        let User { name, uid, groups, extra } = user;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(name.clone()),
                uid: uid.clone(),
                groups: Some(groups.clone()),
                extra: Some(extra.clone()).filter(|extra| !extra.is_empty()),
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path.to_owned()),
                    verb: Some(verb.to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| call_error("create subjectaccessreviews", &error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Whether this process itself may do something to a kind of object.
    ///
    /// # Errors
    /// [`CallError`] if the API server can't be asked.
    pub async fn may_i(&self, what: ResourceAttributes) -> Result<bool, CallError> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(what),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer =
            answer.map_err(|error| call_error("create selfsubjectaccessreviews", &error))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}
