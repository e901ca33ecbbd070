//! Errors as CloudStack sends them: a code, a class and a text, at once or as the result of a job.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::object::Object;

/// An error of a request. The HTTP status equals `code`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    /// `cserrorcode`, the class of the Java exception; absent in a plain 401.
    pub(crate) class: Option<u16>,
    pub(crate) text: String,
    /// `uuidList`: ids of objects that the text is about, each with the name of its field.
    pub(crate) about: Vec<(String, &'static str)>,
    pub(crate) root: ErrorRoot,
}

/// The root key of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorRoot {
    /// That of the command.
    Command,
    /// `errorresponse`: the API is unknown or forbidden.
    Error,
    /// `null`: there was no `command` parameter.
    Null,
}

/// An error inside a job: code and text, without a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFailure {
    pub(crate) code: u16,
    pub(crate) text: String,
}

/// Text of every synchronous internal error that a user sees.
const INTERNAL: &str = "Internal error executing command, please contact your system administrator";
/// Text of every access to something of another owner.
const PERMISSION: &str = "Caller does not have permission to operate with provided resource.";

impl ApiError {
    pub(crate) fn new(code: u16, class: u16, text: impl Into<String>) -> Self {
        Self {
            code,
            class: Some(class),
            text: text.into(),
            about: Vec::new(),
            root: ErrorRoot::Command,
        }
    }

    /// The same error, which names an object.
    pub(crate) fn about(mut self, id: &str, field: &'static str) -> Self {
        self.about.push((id.to_owned(), field));
        self
    }

    /// 431 from a Java `InvalidParameterValueException`.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(431, 4350, text)
    }

    /// 431 raised as an API error, as parameter processing and wrapped create errors do.
    pub(crate) fn parameter(text: impl Into<String>) -> Self {
        Self::new(431, 9999, text)
    }

    /// 530 whose text users do not get to see.
    pub(crate) fn internal(class: u16) -> Self {
        Self::new(530, class, INTERNAL)
    }

    /// 531: an object of another owner.
    pub(crate) fn permission() -> Self {
        Self::new(531, 4365, PERMISSION)
    }

    /// 401, the answer to everything that is wrong with keys, signatures and command names.
    pub(crate) fn unauthorized(root: ErrorRoot) -> Self {
        Self {
            code: 401,
            class: None,
            text: "unable to verify user credentials and/or request signature".to_owned(),
            about: Vec::new(),
            root,
        }
    }

    /// 432: the role does not allow the command.
    pub(crate) fn forbidden(command: &str, account: &str) -> Self {
        Self::no_api(format!(
            "The API [{command}] does not exist or is not available for the account {account}."
        ))
    }

    /// 432: the caller is no member of the project.
    pub(crate) fn no_member(command: &str, project: &str) -> Self {
        Self::no_api(format!(
            "The API [{command}] does not exist or is not available for this account/user in project [{project}]."
        ))
    }

    /// 432: the command is not to be had.
    pub(crate) fn no_api(text: impl Into<String>) -> Self {
        Self { root: ErrorRoot::Error, ..Self::new(432, 9999, text) }
    }

    /// The same error seen as wrapped by a create command, which loses the Java class.
    pub(crate) fn wrapped(mut self) -> Self {
        if self.code == 431 || self.code == 537 {
            self.class = Some(9999);
        }
        self
    }

    /// What stands under the root key.
    pub(crate) fn body(&self) -> Answer {
        let about: Vec<Value> = self
            .about
            .iter()
            .map(|(id, field)| json!({"uuid": id, "description": field}))
            .collect();
        Object::new()
            .with("uuidList", about)
            .with("errorcode", self.code)
            .maybe("cserrorcode", self.class)
            .with("errortext", self.text.as_str())
            .into()
    }
}

impl JobFailure {
    /// 530, which everything but a bad parameter becomes.
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: 530, text: text.into() }
    }

    /// 431, a bad parameter.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { code: 431, text: text.into() }
    }

    pub(crate) fn permission() -> Self {
        Self::internal(PERMISSION)
    }
}

/// Inside a job only bad parameters keep their code (`ApiAsyncJobDispatcher`).
impl From<ApiError> for JobFailure {
    fn from(error: ApiError) -> Self {
        let code = if error.code == 431 { 431 } else { 530 };
        Self { code, text: error.text }
    }
}
