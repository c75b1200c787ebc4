//! `tools/call`: which way it goes, and how long it is waited for.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use taskgate_core::gate::{self, Asking, BackTasks, Carry, Facts, Recording, Route, TaskSupport};
use taskgate_core::id::OperationId;
use taskgate_core::operation::Effect;
use taskgate_core::task::CancelRule;
use taskgate_core::time::Millis;
use taskgate_engine::Handle;
use taskgate_engine::back::{Answer, BackEvent, InFlight, Outgoing};
use taskgate_engine::engine::{NewCall, SubmitError, Submitted};
use taskgate_seeded::Bug;
use taskgate_store::Join;
use taskgate_store::record::{Call, Front, Intent, Key, Record};
use taskgate_wire::dialect::a;
use taskgate_wire::header;
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::meta::META;
use taskgate_wire::mrtr::{self, Retry};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::text::SafeText;
use tokio::time::Instant;

use crate::admit::Admitted;
use crate::config::ToolPolicy;
use crate::dispatch::{Exchange, Failure, Via};
use crate::flight::{Flight, Next};
use crate::follow::{Follow, Known};
use crate::initialize::{OWN_INFO, server_info};
use crate::params::{self, IDEMPOTENCY_KEY};
use crate::reply::Reply;
use crate::results::INLINE_MIN;
use crate::upstream::{self, ToolFacts, Upstream};
use crate::view::view;
use crate::wait::{self, Wait};
use crate::{admit, follow, handle_tool, known, retry};

/// Longest idempotency key.
const KEY_BYTES_MAX: usize = taskgate_workflow::NAME_BYTES_MAX;

/// A call that passed all checks.
pub(crate) struct Checked<'x> {
    pub(crate) exchange: &'x Exchange,
    pub(crate) via: &'x Via,
    /// `None` for one that is answered by what is known already.
    upstream: Option<Arc<dyn Upstream>>,
    pub(crate) policy: ToolPolicy,
    pub(crate) carry: Carry,
    pub(crate) route: Route,
    asking: Asking,
    pub(crate) tool: String,
    digest: [u8; 32],
    key: Option<Key>,
    intent: Option<Intent>,
    ttl: Option<Millis>,
    params: Bytes,
    /// Answers that came with the call, before anything was asked of its client.
    pub(crate) ahead: Vec<(String, &'x str)>,
}

pub(crate) async fn call(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    if let Some(error) = exchange.gateway.engine.store().breakdown().error() {
        // Also what needs no record: whoever can record nothing more ends, and sends nothing any more.
        return Err(error.into());
    }
    let request = &exchange.request;
    let name = request.param("name").and_then(json::string);
    let name = name.ok_or_else(|| RpcError::invalid_params("params.name is missing or no string"))?;
    if name == handle_tool::NAME {
        return Box::pin(handle_tool::call(exchange, via)).await;
    }
    let arguments = match request.param("arguments") {
        None | Some("null") => "{}",
        Some(arguments) if json::is_object(arguments) => arguments,
        Some(_) => return Err(RpcError::invalid_params("params.arguments is no object").into()),
    };
    let (carry, ttl) = match via {
        // Other versions do not know the member and ignore it (G-001, B-071).
        Via::Legacy(session) if session.version().has_tasks_a() => match request.param("task") {
            None | Some("null") => (Carry::Plain, None),
            Some(wish) => (Carry::Augmented, a::read_wish(wish)?.ttl),
        },
        Via::Modern(modern) if modern.declares_tasks => (Carry::Extension, None),
        Via::Legacy(_) | Via::Modern(_) => (Carry::Plain, None),
    };
    let key = idempotency_key(exchange)?;
    let is_open = exchange.gateway.upstreams.is_open(&via.back_key(exchange));
    let repeated = || Box::pin(before(exchange, via, &name, arguments, (carry, ttl), key.clone()));
    // Opening takes its time, or fails; what the ledger knows needs no server (INV-30).
    if !is_open && let Some(reply) = repeated().await? {
        return Ok(reply);
    }
    let (upstream, facts) = match reach(exchange, via, &name).await {
        Ok(reached) => reached,
        // It broke in this moment.
        Err(failure) if is_open => return repeated().await?.ok_or(failure),
        Err(failure) => return Err(failure),
    };
    if let (Some(headers), Some(schema)) = (&exchange.headers, &facts.mirroring) {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        header::check_arguments(schema, Some(arguments), header)?;
    }
    let policy = exchange.policy.tool(&name, facts.is_read_only);
    let decision = gate::decide(Facts {
        mode: policy.mode,
        effect: policy.effect,
        carry,
        back: upstream.tasks(),
        support: facts.support,
    });
    tracing::debug!(server = %exchange.policy.name, ?decision, "call routed");
    if policy.effect != Effect::ReadOnly
        && let Some(twice) = json::duplicate_member(arguments)
    {
        // Readers disagree about which of the two counts, and we cannot know which one the server takes.
        let message = format!("params.arguments names {} twice", SafeText::new(&twice, 80));
        return Err(RpcError::invalid_params(message).into());
    }
    let admission = match exchange.policy.workflows.get(name.as_ref()) {
        Some(workflow) => {
            admit::can_be_looked_up(workflow, &upstream).await?;
            admit::admit(workflow, &name, arguments, key)?
        }
        None => Admitted::plain(key),
    };
    let also = ["task", "inputResponses", "requestState"];
    let log_level = via.log_level().filter(|_| upstream.says().back.version.is_modern());
    let params = params::clean(request, &also, log_level)
        .map_err(|malformed| RpcError::invalid_params(malformed.to_string()))?;
    let params = admission.forward(params)?;
    let retry = match via {
        Via::Modern(_) => mrtr::read_retry(request.params().unwrap_or("{}"))?,
        Via::Legacy(_) => None,
    };
    // Without a state they belong to no call that was made: this is a new one, and they come before its questions.
    let (retry, ahead) = match retry {
        Some(Retry { request_state: None, answers }) => (None, answers),
        retry => (retry, Vec::new()),
    };
    let checked = Checked {
        exchange,
        via,
        upstream: Some(upstream),
        policy,
        carry,
        route: decision.route,
        asking: decision.asking,
        digest: [0; 32],
        tool: name.into_owned(),
        key: admission.key,
        intent: admission.intent,
        ttl,
        params,
        ahead,
    };
    let reply = match (decision.recording, retry) {
        (_, Some(retry)) => {
            let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
            Box::pin(retry::go_on(checked, retry)).await
        }
        // One that comes again may have been recorded when it asked or lasted: under its frame it is found.
        (Recording::IfItLasts, None) if checked.key.is_none() && !exchange.sent.is_again => {
            read(checked, arguments).await
        }
        // A key asks for one operation however often it is sent, so it is recorded even for a read.
        (Recording::IfItLasts | Recording::First, None) => {
            let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
            Box::pin(recorded(checked)).await
        }
    };
    match (reply, via) {
        (Err(Failure::Theirs(error)), Via::Modern(modern)) => {
            retry::url_first(exchange, modern, arguments, error)
        }
        (reply, _) => reply,
    }
}

/// Opens the server, and finds the tool there.
async fn reach(
    exchange: &Exchange,
    via: &Via,
    name: &str,
) -> Result<(Arc<dyn Upstream>, ToolFacts), Failure> {
    let upstream = exchange.upstream(via).await?;
    // Nothing is recorded, and nothing sent, for a tool that is not there.
    let facts = upstream::tool(&upstream, name).await?.ok_or_else(|| RpcError::unknown_tool(name))?;
    Ok((upstream, facts))
}

/// Answers a call that was made before by what is known of that, without its server: under a key, by a frame that comes
/// again, or as the same call of a client that holds no task. `None` if it would be sent, or if only its server knows more.
async fn before(
    exchange: &Exchange,
    via: &Via,
    name: &str,
    arguments: &str,
    (carry, ttl): (Carry, Option<Millis>),
    key: Option<String>,
) -> Result<Option<Reply>, Failure> {
    let is_retry = exchange.request.param("requestState").is_some_and(|state| state != "null");
    // What a server says of a tool makes its policy only weaker.
    let policy = exchange.policy.tool(name, false);
    let is_refused = policy.effect != Effect::ReadOnly && json::duplicate_member(arguments).is_some();
    if is_retry || is_refused {
        return Ok(None);
    }
    let admission = match exchange.policy.workflows.get(name) {
        Some(workflow) => match admit::admit(workflow, name, arguments, key) {
            Ok(admission) => admission,
            Err(_) => return Ok(None),
        },
        None => Admitted::plain(key),
    };
    let (back, support) = (BackTasks::None, TaskSupport::Forbidden);
    let decision = gate::decide(Facts { mode: policy.mode, effect: policy.effect, carry, back, support });
    let checked = Checked {
        exchange,
        via,
        upstream: None,
        policy,
        carry,
        route: decision.route,
        asking: decision.asking,
        digest: digest(name, arguments),
        tool: name.to_owned(),
        key: admission.key,
        intent: admission.intent,
        ttl,
        params: Bytes::new(),
        ahead: Vec::new(),
    };
    let join = checked.join();
    if join == Join::Never && !exchange.sent.is_again {
        return Ok(None);
    }
    let found = exchange.gateway.engine.earlier(&checked.new_call(join)).await;
    let found = found.map_err(|error| refused(error, checked.key.as_ref()))?;
    let (handle, start) = match found {
        None | Some(Submitted::Started(_)) => return Ok(None),
        // Its server may say that it only reads, and then it is made again.
        Some(Submitted::Joined(handle))
            if checked.key.is_none() && handle.record().operation.effect == Effect::ReadOnly =>
        {
            return Ok(None);
        }
        Some(Submitted::Joined(handle)) => {
            let start = joined(&checked, &handle);
            (handle, start)
        }
        Some(Submitted::Again(handle)) => (handle, Start::Fresh),
        Some(Submitted::Known(entry)) => return Err(known::known(&entry).into()),
    };
    answer(checked, handle, start).await.map(Some)
}

fn idempotency_key(exchange: &Exchange) -> Result<Option<String>, RpcError> {
    let Some(raw) = exchange.request.param(META).and_then(|meta| json::at(meta, &[IDEMPOTENCY_KEY])) else {
        return Ok(None);
    };
    match json::string(raw) {
        Some(key) if (1..=KEY_BYTES_MAX).contains(&key.len()) => Ok(Some(key.into_owned())),
        Some(_) | None => Err(RpcError::invalid_params(format!(
            "_meta[\"{IDEMPOTENCY_KEY}\"] is a string of 1 to {KEY_BYTES_MAX} bytes"
        ))),
    }
}

/// SHA-256 over the tool and its arguments in canonical form, each with its length before it.
pub(crate) fn digest(tool: &str, arguments: &str) -> [u8; 32] {
    let arguments = json::canonical(arguments);
    let mut hash = Sha256::new();
    for part in [tool.as_bytes(), &arguments] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Why an answer is not waited for any longer.
enum Over {
    Cancelled,
    Time,
}

/// A read-only call: straight through, with no store access unless it lasts (design 6, step 3).
async fn read(checked: Checked<'_>, arguments: &str) -> Result<Reply, Failure> {
    let exchange = checked.exchange;
    let outgoing = Outgoing {
        tool: checked.tool.clone(),
        params: checked.params.clone(),
        asking: checked.asking,
        ttl: exchange.gateway.engine.limits().deadline + Millis::hours(1),
        key: None,
        offers: checked.via.back_key(exchange).offers,
        round: None,
    };
    let back = checked.back()?;
    let mut flight = Flight::new(back.call(outgoing), matches!(checked.via, Via::Modern(_)));
    let until = checked.until();
    let cancelled = exchange.running.as_ref().map(|running| running.cancelled.clone());
    loop {
        let patience = async {
            tokio::select! {
                biased;
                () = async { match &cancelled { Some(token) => token.cancelled().await, None => std::future::pending().await } } => Over::Cancelled,
                () = tokio::time::sleep_until(until) => Over::Time,
            }
        };
        match flight.next(patience).await {
            Next::Else(Over::Cancelled) => {
                flight.stop();
                return Err(Failure::Cancelled);
            }
            Next::Else(Over::Time) if checked.route == Route::Sync => {
                flight.stop();
                return Err(checked.out_of_time(None));
            }
            Next::Else(Over::Time) => {
                let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
                return Box::pin(adopt(checked, flight.take(), None, Wait::Lasted)).await;
            }
            // One that is told of by a handle is recorded before that leaves (R3.3, R5.7).
            Next::Answer(answer @ Answer::Returned { .. }) if checked.is_long(&answer) => {
                let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
                let over = Some(InFlight::ready(answer));
                return Box::pin(adopt(checked, over, None, Wait::Until(until))).await;
            }
            Next::Answer(Answer::Returned { result, .. }) => {
                return Ok(checked.via.result(exchange.request.id(), &result, &checked.info()));
            }
            Next::Answer(Answer::Raised { error, .. }) => return Err(Failure::Theirs(error)),
            Next::Answer(answer @ (Answer::Task(_) | Answer::InputRequired { .. })) => {
                let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
                let over = Some(InFlight::ready(answer));
                return Box::pin(adopt(checked, over, None, Wait::Until(until))).await;
            }
            Next::Answer(Answer::NeverSent(why) | Answer::Lost(why)) => {
                let why = SafeText::status(&why);
                return Err(RpcError::internal(format!("The server did not answer: {why}")).into());
            }
            Next::Answer(Answer::Nonsense(why)) => {
                return Err(RpcError::upstream_fault(SafeText::status(&why).as_str()).into());
            }
            Next::Event(BackEvent::Progress(params)) => checked.progress(&params),
            Next::Event(BackEvent::Log(params)) => checked.log(&params),
            Next::Event(asked @ BackEvent::Asked { .. }) => {
                let checked = Checked { digest: digest(&checked.tool, arguments), ..checked };
                return Box::pin(adopt(checked, flight.take(), Some(asked), Wait::Until(until))).await;
            }
            Next::Event(BackEvent::Unasked { .. } | BackEvent::Nudge | BackEvent::Visited { .. }) => {}
        }
    }
}

/// Records a read-only exchange that is under way. Only then may a handle leave (R3.3).
async fn adopt(
    checked: Checked<'_>,
    in_flight: Option<InFlight>,
    first: Option<BackEvent>,
    wait: Wait,
) -> Result<Reply, Failure> {
    let Some(in_flight) = in_flight else {
        return Err(RpcError::internal("The call ended while it was being recorded").into());
    };
    let engine = checked.exchange.gateway.engine.clone();
    let new = checked.new_call(Join::Never);
    let back = checked.back()?;
    let handle = engine.adopt(new, back, in_flight, first).await;
    let handle = handle.map_err(|error| refused(error, checked.key.as_ref()))?;
    wait::wait(&checked, handle, wait, Start::Fresh).await
}

/// A call that never began, made again: the first one of its kind is no call to join.
pub(crate) async fn again(checked: Checked<'_>) -> Result<Reply, Failure> {
    let join = if checked.key.is_some() { Join::SameKey } else { Join::Never };
    submit(checked, join).await
}

/// A call that is recorded before the server hears of it (R4.2).
async fn recorded(checked: Checked<'_>) -> Result<Reply, Failure> {
    let join = checked.join();
    submit(checked, join).await
}

async fn submit(checked: Checked<'_>, join: Join) -> Result<Reply, Failure> {
    let engine = checked.exchange.gateway.engine.clone();
    let new = checked.new_call(join);
    let back = checked.back()?;
    let submitted = engine.submit(new, back).await;
    let (handle, start) = match submitted.map_err(|error| refused(error, checked.key.as_ref()))? {
        Submitted::Started(handle) => (handle, Start::Fresh),
        Submitted::Joined(handle) => {
            let start = joined(&checked, &handle);
            (handle, start)
        }
        // The same call, delivered twice: the caller sees one.
        Submitted::Again(handle) => (handle, Start::Fresh),
        Submitted::Known(entry) => return Err(known::known(&entry).into()),
    };
    answer(checked, handle, start).await
}

fn joined(checked: &Checked<'_>, handle: &Handle) -> Start {
    let is_waiting = checked.key.is_none() && handle.record().is_unfetched();
    if is_waiting { Start::Waiting } else { Start::Joined }
}

/// Answers a call that is recorded: by its task, or by its result if that comes in time.
async fn answer(checked: Checked<'_>, handle: Handle, start: Start) -> Result<Reply, Failure> {
    match (checked.carry, checked.via) {
        (Carry::Augmented, Via::Legacy(session)) => {
            if let Some(running) = &checked.exchange.running
                && running.cancelled.is_cancelled()
            {
                // taken back before its task had an id for the client.
                checked.cancel(&handle, CancelRule::Promise);
                return Err(Failure::Cancelled);
            }
            let token = checked.via.progress_token(&checked.exchange.request).map(String::from);
            let follow = Follow::start(&checked.exchange.gateway, session, &handle, token, Known::AsTask);
            let record = handle.record();
            let created = a::create_result(&view(&checked.exchange.gateway.engine, &record));
            let reply = Reply::result(checked.exchange.request.id(), crate::dispatch::text(&created));
            Ok(Reply { telling: Some(follow.telling()), ..reply })
        }
        (Carry::Augmented | Carry::Extension | Carry::Plain, _) => {
            let wait = match checked.route {
                Route::Task => Wait::Lasted,
                Route::Auto | Route::Sync => Wait::Until(checked.until()),
            };
            wait::wait(&checked, handle, wait, start).await
        }
    }
}

/// Whether a call is the first of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// It was sent.
    Fresh,
    /// It joined one that was made before (R4.6).
    Joined,
    /// It joined one that was over already, and whose result nobody had fetched.
    Waiting,
}

fn refused(error: SubmitError, key: Option<&Key>) -> Failure {
    match error {
        SubmitError::KeyReused => known::reused(key).into(),
        SubmitError::KeyElsewhere => {
            let error = RpcError::invalid_params(sentence(&error.to_string()));
            error.with_data("{\"reason\":\"key_elsewhere\"}").into()
        }
        SubmitError::ObjectBusy(busy) => known::busy(&busy).into(),
        SubmitError::Busy { .. } | SubmitError::TooManyTasks { .. } | SubmitError::Stopping => {
            RpcError::internal(sentence(&error.to_string())).into()
        }
        SubmitError::InDoubt(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the store cannot say whether a call was recorded"
            );
            RpcError::internal(sentence(&SubmitError::InDoubt(error).to_string())).into()
        }
        SubmitError::Store(error) => error.into(),
    }
}

/// With a capital letter, as our other messages have it.
pub(crate) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

impl Checked<'_> {
    /// The server that carries it out.
    fn back(&self) -> Result<Arc<dyn Upstream>, RpcError> {
        self.upstream.clone().ok_or_else(|| RpcError::internal("The call has no server"))
    }

    /// Who answers, as results name it: the server, or we in its place.
    pub(crate) fn info(&self) -> String {
        match &self.upstream {
            Some(upstream) => server_info(&upstream.says()).to_owned(),
            None => OWN_INFO.to_owned(),
        }
    }

    /// Which earlier call it joins.
    fn join(&self) -> Join {
        match (&self.key, self.carry, self.policy.effect) {
            (Some(_), _, _) => Join::SameKey,
            (None, Carry::Plain, Effect::Reversible | Effect::Consequential) => Join::SameCall,
            (None, Carry::Plain, Effect::ReadOnly) | (None, Carry::Augmented | Carry::Extension, _) => {
                Join::Never
            }
        }
    }

    /// How long to wait for the answer itself.
    fn patience(&self) -> Duration {
        let limits = &self.exchange.gateway.config.limits;
        let patience = match (self.route, self.carry) {
            (Route::Auto, Carry::Extension) => limits.task_after,
            (Route::Auto, Carry::Plain | Carry::Augmented) | (Route::Sync | Route::Task, _) => {
                self.exchange.policy.sync_budget(limits)
            }
        };
        patience.duration()
    }

    /// Until when to wait for it, since its client waits from when it sent the call first.
    pub(crate) fn until(&self) -> Instant {
        self.exchange.sent.since + self.patience()
    }

    fn new_call(&self, join: Join) -> NewCall {
        let key = self.via.back_key(self.exchange);
        NewCall {
            principal: key.principal,
            front: match self.carry {
                Carry::Augmented => Front::A,
                Carry::Extension => Front::B,
                Carry::Plain => Front::Plain,
            },
            call: Call {
                server: key.server,
                tool: self.tool.clone(),
                params: self.params.clone(),
                digest: self.digest,
                key: self.key.clone(),
                intent: self.intent.clone(),
                offers: key.offers,
                asking: self.asking,
                frame: self.exchange.sent.frame.filter(|_| !taskgate_seeded::is(Bug::FrameDropped)),
            },
            effect: self.policy.effect,
            replay: self.policy.replay,
            ttl: self.ttl,
            join,
        }
    }

    /// Whether a result is one that is kept apart.
    fn is_long(&self, answer: &Answer) -> bool {
        let Answer::Returned { result, .. } = answer else { return false };
        // Without a workflow it costs one comparison.
        result.len() > INLINE_MIN
            && self.exchange.policy.workflows.get(&self.tool).is_some_and(|workflow| {
                let general = self.exchange.gateway.config.limits.result_inline;
                result.len() > workflow.inline_max.unwrap_or(general).max(INLINE_MIN)
            })
    }

    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Shows progress on the call's own stream, if the client gave a token (A-079, B-139).
    pub(crate) fn progress(&self, params: &Bytes) {
        if let Some(token) = self.via.progress_token(&self.exchange.request) {
            self.exchange.outlet.send(follow::progress(params, token, None));
        }
    }

    /// Shows a log message on the call's own stream, if the client wants it (B-140, X-044).
    pub(crate) fn log(&self, params: &Bytes) {
        if self.via.wants_log(params) {
            self.exchange.outlet.send(follow::log(params, None));
        }
    }

    /// Has a call cancelled, whoever still listens.
    pub(crate) fn cancel(&self, handle: &Handle, rule: CancelRule) {
        let engine = self.exchange.gateway.engine.clone();
        let record = handle.record();
        tokio::spawn(async move {
            if let Err(error) = engine.cancel(&record.principal, &record.id, rule).await {
                tracing::debug!(task = ?record.id, %error, "a cancellation came too late");
            }
        });
    }

    /// The store has failed while this call was waited for.
    pub(crate) fn store_failed(&self, record: &Record) -> Failure {
        const WORDS: &str =
            "The gateway's store has failed and the gateway ends, so this call is waited for no longer";
        match record.operation.effect {
            Effect::ReadOnly => RpcError::internal(format!("{WORDS}; call again in a moment")).into(),
            Effect::Reversible | Effect::Consequential => {
                let error = RpcError::internal(format!(
                    "{WORDS}. Whether it had an effect is not known yet: once the gateway runs again, look at your tasks before \
                     you call again"
                ));
                let operation = string_literal(&record.operation_id.0);
                let data = format!(
                    "{{\"reason\":\"store_failed\",\"outcome\":\"unknown\",\"operation\":{operation}}}"
                );
                error.with_data(data).into()
            }
        }
    }

    /// What a call is told that may be answered inline or not at all, and was not in time.
    pub(crate) fn out_of_time(&self, operation: Option<&OperationId>) -> Failure {
        let secs = self.patience().as_millis().div_ceil(1000);
        let told = match self.policy.effect {
            Effect::ReadOnly => "",
            Effect::Reversible | Effect::Consequential => "; whether it had an effect is unknown",
        };
        let message = format!(
            "{} did not end within {secs} s and was asked to stop{told}",
            SafeText::new(&self.tool, 80)
        );
        let error = RpcError::internal(message);
        Failure::Ours(match operation {
            None => error,
            Some(id) => error.with_data(format!(
                "{{\"reason\":\"sync_budget\",\"outcome\":\"unknown\",\"operation\":{}}}",
                string_literal(&id.0)
            )),
        })
    }
}
