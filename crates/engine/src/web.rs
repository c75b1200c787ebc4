//! The web, as far as the engine needs it: systems of record that are asked by HTTP GET, and people's webhooks. The
//! `client` crate implements it.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use taskgate_core::id::{OperationId, ServerName, WorkflowName};
use taskgate_core::time::UnixMillis;

use crate::rules::{Hidden, Webhook};

/// Makes single HTTP requests. None of them follows a redirect: that would carry the headers elsewhere.
#[async_trait]
pub trait Web: Send + Sync + 'static {
    /// Reads `url`. An answer of any status is an answer.
    ///
    /// # Errors
    /// In words for a person, without the URL's path and query and without headers: no connection, no answer within
    /// `time`, or a body of more than `bytes_max`.
    async fn get(
        &self,
        url: &str,
        headers: &[(String, Hidden)],
        time: Duration,
        bytes_max: usize,
    ) -> Result<WebAnswer, String>;

    /// Posts `notice` to `hook`, as JSON. `Ok` if it was acknowledged by a status 2xx.
    ///
    /// # Errors
    /// As for [`Web::get`], or the status that says otherwise.
    async fn notify(&self, hook: &Webhook, notice: &Notice, time: Duration) -> Result<(), String>;
}

/// An answer to a GET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

/// What the owners of a workflow are told when an operation waits for a person. It holds no payload, no key and no
/// person's answer (R5.5, R6.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The same for every delivery of the same news: a notice is delivered at least once.
    pub id: String,
    /// The operation.
    pub operation: OperationId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The server that was called.
    pub server: ServerName,
    /// The tool that was called.
    pub tool: String,
    /// What it acts on, and which version of that, if the workflow says so.
    pub object: Option<(String, Option<String>)>,
    /// What is known of the effect: `unknown`, `assumed_not_applied`, `reported_applied`, ….
    pub outcome: &'static str,
    /// Why a person is to decide: a word for machines.
    pub reason: &'static str,
    /// The same in words.
    pub why: &'static str,
    /// Since when it waits.
    pub since: UnixMillis,
    /// Who is to decide.
    pub owners: Vec<String>,
}

/// No web: nothing can be asked, and nobody told.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWeb;

const NONE: &str = "this process speaks to no web";

#[async_trait]
impl Web for NoWeb {
    async fn get(&self, _: &str, _: &[(String, Hidden)], _: Duration, _: usize) -> Result<WebAnswer, String> {
        Err(NONE.to_owned())
    }

    async fn notify(&self, _: &Webhook, _: &Notice, _: Duration) -> Result<(), String> {
        Err(NONE.to_owned())
    }
}
