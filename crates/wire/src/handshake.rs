//! `initialize` and `server/discover`: what a back says of itself, as each front hears it.

use std::borrow::Cow;

use bytes::Bytes;
use taskgate_core::gate::BackTasks;

use crate::json::{self, Object, push_literal, string_literal};
use crate::listing::Cache;
use crate::message::Malformed;
use crate::meta::modern::declares_tasks;
use crate::meta::{META, SERVER_INFO, TASKS_EXTENSION};
use crate::mrtr::UpstreamFault;
use crate::offers::Offers;
use crate::rpc_error::{RpcError, supported};
use crate::splice::{Edit, splice};
use crate::version::{Era, Version};

/// What a back says of itself, in either era.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BackSelf {
    /// The version that is spoken with it.
    pub version: Version,
    /// Raw capabilities object.
    pub capabilities: String,
    /// Raw implementation object, `None` if it does not say.
    pub server_info: Option<String>,
    /// What it wants the model to know.
    pub instructions: Option<String>,
}

impl BackSelf {
    /// Reads a legacy back's answer to `initialize`.
    ///
    /// # Errors
    /// [`UpstreamFault`]: it makes no sense, or names a version that we do not speak.
    pub fn read_initialize(result: &str) -> Result<BackSelf, UpstreamFault> {
        let result = Object::parse(result).map_err(|error| UpstreamFault::new(error.to_string()))?;
        let version = result.str("protocolVersion").as_deref().and_then(Version::parse);
        match version {
            Some(version) if !version.is_modern() => {
                BackSelf::read(&result, version, result.get("serverInfo"))
            }
            Some(_) | None => {
                Err(UpstreamFault::new("initialize was answered with a version that is not spoken here"))
            }
        }
    }

    /// Reads a modern back's answer to `server/discover`.
    ///
    /// # Errors
    /// [`UpstreamFault`]: it makes no sense.
    pub fn read_discover(result: &str, version: Version) -> Result<BackSelf, UpstreamFault> {
        let result = Object::parse(result).map_err(|error| UpstreamFault::new(error.to_string()))?;
        let info = result.get(META).and_then(|meta| json::at(meta, &[SERVER_INFO]));
        BackSelf::read(&result, version, info)
    }

    fn read(result: &Object<'_>, version: Version, info: Option<&str>) -> Result<BackSelf, UpstreamFault> {
        let capabilities = result.get("capabilities").filter(|value| json::is_object(value));
        Ok(BackSelf {
            version,
            capabilities: capabilities
                .ok_or_else(|| UpstreamFault::new("a server without capabilities"))?
                .to_owned(),
            server_info: info.filter(|value| json::is_object(value)).map(String::from),
            instructions: result.str("instructions").map(String::from),
        })
    }

    /// What it can do with tasks: only what its own era has counts (B-116, B-117, R2.1).
    #[must_use]
    pub fn tasks(&self) -> BackTasks {
        match self.version.era() {
            Era::Modern if declares_tasks(&self.capabilities) => BackTasks::B,
            Era::Legacy
                if self.version.has_tasks_a() && self.has(&["tasks", "requests", "tools", "call"]) =>
            {
                BackTasks::A
            }
            Era::Modern | Era::Legacy => BackTasks::None,
        }
    }

    /// Whether its tasks can be cancelled.
    #[must_use]
    pub fn can_cancel(&self) -> bool {
        match self.tasks() {
            BackTasks::None => false,
            BackTasks::A => self.has(&["tasks", "cancel"]),
            BackTasks::B => true,
        }
    }

    /// Whether its tasks can be listed: for recovery only.
    #[must_use]
    pub fn can_list(&self) -> bool {
        self.tasks() == BackTasks::A && self.has(&["tasks", "list"])
    }

    /// Whether its capabilities hold this path of objects.
    #[must_use]
    pub fn has(&self, path: &[&str]) -> bool {
        json::at(&self.capabilities, path).is_some_and(json::is_object)
    }
}

/// What we say about tasks on a front.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OfferTasks {
    /// Nothing.
    No,
    /// Everything that the front's version has.
    Yes {
        /// Whether the caller has a principal of its own; otherwise nothing is listed to it.
        is_identified: bool,
    },
}

/// The capabilities that a front sees: the back's own, with whatever it says of tasks replaced by ours
///
///
/// # Errors
/// [`Malformed`] if the back's capabilities are no object.
pub fn capabilities(back: &BackSelf, front: Version, tasks: OfferTasks) -> Result<Bytes, Malformed> {
    let extension = ["extensions", TASKS_EXTENSION];
    let mut edits = vec![Edit::remove(&["tasks"])];
    let others = json::at(&back.capabilities, &["extensions"]).and_then(|all| Object::parse(all).ok());
    let has_others = others.is_some_and(|all| all.members().any(|member| member.name != TASKS_EXTENSION));
    edits.push(if has_others { Edit::remove(&extension) } else { Edit::remove(&["extensions"]) });
    match tasks {
        OfferTasks::Yes { is_identified } if front.has_tasks_a() => {
            let list = if is_identified { "\"list\":{}," } else { "" };
            let tree = format!("{{{list}\"cancel\":{{}},\"requests\":{{\"tools\":{{\"call\":{{}}}}}}}}");
            edits.push(Edit::set(&["tasks"], tree));
        }
        OfferTasks::Yes { .. } if front.has_tasks_b() => edits.push(Edit::set(&extension, "{}")),
        OfferTasks::Yes { .. } | OfferTasks::No => {}
    }
    splice(&back.capabilities, &edits)
}

/// `InitializeResult` for a legacy front. `own_info` stands in for a back that does not name
/// itself.
///
/// # Errors
/// [`Malformed`] if the back's capabilities are no object.
pub fn initialize_result(
    back: &BackSelf,
    front: Version,
    tasks: OfferTasks,
    own_info: &str,
) -> Result<Bytes, Malformed> {
    let capabilities = capabilities(back, front, tasks)?;
    let mut out = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{},\"serverInfo\":{}",
        front.as_str(),
        crate::result::text(&capabilities).unwrap_or("{}"),
        info_for(back.server_info.as_deref().unwrap_or(own_info), front)
    );
    push_instructions(&mut out, back);
    Ok(Bytes::from(out))
}

/// An implementation object without what `front` does not know of it (G-005).
fn info_for(info: &str, front: Version) -> Cow<'_, str> {
    let mut foreign: Vec<&[&str]> = Vec::new();
    if !front.has_icons() {
        foreign.extend([["icons"].as_slice(), &["websiteUrl"], &["description"]]);
    }
    if !front.has_titles() {
        foreign.push(&["title"]);
    }
    foreign.retain(|path| json::at(info, path).is_some());
    if foreign.is_empty() {
        return Cow::Borrowed(info);
    }
    let edits: Vec<Edit<'_>> = foreign.into_iter().map(Edit::remove).collect();
    let plain = splice(info, &edits).ok().and_then(|bytes| String::from_utf8(bytes.into()).ok());
    plain.map_or(Cow::Borrowed(info), Cow::Owned)
}

/// `DiscoverResult` for a modern front (B-018, B-056, B-120). All versions are listed, the legacy ones as
/// well.
///
/// # Errors
/// [`Malformed`] if the back's capabilities are no object.
pub fn discover_result(
    back: &BackSelf,
    tasks: OfferTasks,
    own_info: &str,
    cache: Cache,
) -> Result<Bytes, Malformed> {
    let capabilities = capabilities(back, Version::MODERN, tasks)?;
    let mut out = format!(
        "{{\"resultType\":\"complete\",\"supportedVersions\":{},\"capabilities\":{},\"ttlMs\":{},\
         \"cacheScope\":{},\"{META}\":{{\"{SERVER_INFO}\":{}}}",
        supported(),
        crate::result::text(&capabilities).unwrap_or("{}"),
        cache.ttl.0,
        cache.scope_json(),
        back.server_info.as_deref().unwrap_or(own_info)
    );
    push_instructions(&mut out, back);
    Ok(Bytes::from(out))
}

fn push_instructions(out: &mut String, back: &BackSelf) {
    if let Some(instructions) = &back.instructions {
        out.push_str(",\"instructions\":");
        push_literal(out, instructions);
    }
    out.push('}');
}

/// The params of our `initialize` to a legacy back. `client_info` is a raw implementation object.
#[must_use]
pub fn initialize_params(version: Version, offers: &Offers, client_info: &str) -> String {
    format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{},\"clientInfo\":{client_info}}}",
        version.as_str(),
        offers.capabilities_json(version)
    )
}

/// What a client's `initialize` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// What we answer with.
    pub version: Version,
    /// What the client can be asked for.
    pub offers: Offers,
    /// Raw implementation object.
    pub client_info: Option<String>,
}

/// Reads the params of a client's `initialize`.
///
/// # Errors
/// `-32602`: it names no version.
pub fn read_opening(params: Option<&str>) -> Result<Opening, RpcError> {
    let params = params.unwrap_or("{}");
    let object = Object::parse(params).map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let requested = object.str("protocolVersion");
    let requested = requested.ok_or_else(|| RpcError::invalid_params("Missing params.protocolVersion"))?;
    let version = Version::negotiate(&requested);
    Ok(Opening {
        version,
        offers: Offers::from_initialize(params, version),
        client_info: object.get("clientInfo").filter(|value| json::is_object(value)).map(String::from),
    })
}

/// The params of a `notifications/cancelled` (A-092, B-052).
#[must_use]
pub fn cancelled_params(request_id: &crate::id::RequestId, reason: &str) -> String {
    format!("{{\"requestId\":{},\"reason\":{}}}", request_id.as_json(), string_literal(reason))
}
