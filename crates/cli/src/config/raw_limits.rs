//! `[limits]` as it is written. Each key says what it bounds and where its first value comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taskgate_client::config::{Restart, ServerConfig, Transport};
use taskgate_core::time::Millis;

use super::units::{Size, Span};

/// What the gateway keeps to. A key that is left out gives way to a smaller bound that is written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawLimits {
    /// How long a call that cannot carry a task is waited for before its client gets a handle. Hosts enforce 60 s;
    /// this stays clear of it.
    pub(crate) sync_budget: Span,
    /// How long a call that can carry a task is waited for before its client gets one. Short calls stay plain.
    pub(crate) task_after: Span,

    /// Lifetime of a task whose client asked for none. A day covers work that is looked at the next morning.
    pub(crate) ttl: Span,
    /// Longest lifetime of a task.
    pub(crate) ttl_max: Span,
    /// Longest lifetime of a task whose caller cannot be told apart from others, as over HTTP today: whoever learns
    /// its id can read it.
    pub(crate) ttl_max_anonymous: Span,
    /// How long a result stays after the end, at least, within the longest lifetime.
    pub(crate) linger: Span,
    /// How long work may take. Apart from the lifetime of its task, and never longer than the longest lifetime.
    pub(crate) deadline: Span,
    /// The same for callers that cannot be told apart.
    pub(crate) deadline_anonymous: Span,
    /// How long after its creation a call that was never sent may still be begun, after a restart.
    pub(crate) start_by: Span,
    /// How long an answer is listened for after a cancellation was passed on.
    pub(crate) cancel_grace: Span,

    /// Least time between two reads of a server's task, and first poll interval that clients are told. A server's
    /// own hint is kept.
    pub(crate) poll_floor: Span,
    /// Longest time between two such reads without a hint. The interval grows with the age of the work: about 30
    /// reads in ten minutes.
    pub(crate) poll_ceiling: Span,
    /// Connecting to a server and creating work there: time for all tries.
    pub(crate) create_time: Span,
    /// Connecting to a server and creating work there: tries.
    pub(crate) create_attempts: u32,
    /// Status reads that fail in a row: time for all tries. A server may be away for a deployment.
    pub(crate) status_read_time: Span,
    /// Status reads that fail in a row: tries.
    pub(crate) status_read_attempts: u32,
    /// Fetching a result once there is one: time for all tries.
    pub(crate) result_time: Span,
    /// Fetching a result once there is one: tries.
    pub(crate) result_attempts: u32,
    /// Asking the system of record what became of a call whose answer was lost: time for all looks. A day covers an
    /// outage over night.
    pub(crate) reconcile_time: Span,
    /// Asking the system of record: looks.
    pub(crate) reconcile_attempts: u32,
    /// The answer to one such look, or to a fence, opening a session included.
    pub(crate) lookup_answer: Span,
    /// Longest wait between two looks after one operation, unless the probe's own `every` is longer.
    pub(crate) lookup_ceiling: Span,
    /// Operations of one workflow that are looked up at once.
    pub(crate) lookups: usize,
    /// Looks at one system of record at once, whichever workflows ask. An outage leaves many to be looked up; this
    /// keeps them from bringing it down again.
    pub(crate) lookups_system: usize,
    /// Telling a webhook that an operation waits for a person: time for all tries. The operation stays on the list.
    pub(crate) webhook_time: Span,
    /// Telling a webhook: tries.
    pub(crate) webhook_attempts: u32,
    /// The acknowledgement of one such try.
    pub(crate) webhook_answer: Span,
    /// Notices to one workflow's webhook at once.
    pub(crate) webhooks: usize,
    /// How long operations, their history and their keys are kept after the last change. Open ones, and those that
    /// wait for a person, are kept longer. A bit over a year covers a yearly audit.
    pub(crate) evidence: Span,

    /// Unfinished tasks of one principal.
    pub(crate) live_tasks: usize,
    /// Unfinished tasks of all callers that cannot be told apart, together.
    pub(crate) live_tasks_anonymous: usize,
    /// Calls sent to one server and not yet answered. Further calls wait for their turn.
    pub(crate) running: usize,
    /// Calls that wait for their turn at one server. Further calls are refused.
    pub(crate) queue: usize,
    /// Finished tasks that are kept in memory for the next read.
    pub(crate) finished_cached: usize,

    /// Longest message from a client.
    pub(crate) message_from_client: Size,
    /// Longest message from a server.
    pub(crate) message_from_server: Size,
    /// Connections from clients.
    pub(crate) connections: usize,
    /// Sessions of legacy clients. Above it the longest unused one ends; its tasks stay.
    pub(crate) sessions: usize,
    /// How long a session is kept unused.
    pub(crate) session_idle: Span,
    /// Requests of one session that are under way at once.
    pub(crate) requests: usize,
    /// Open event streams (GET) of one session.
    pub(crate) streams: usize,
    /// Open `subscriptions/listen` of one principal.
    pub(crate) listens: usize,
    /// Ids and URIs in one `subscriptions/listen`.
    pub(crate) filter: usize,
    /// Open `tasks/result` of one principal that wait for the end.
    pub(crate) blocked_results: usize,
    /// Tasks on one page of a list.
    pub(crate) page_tasks: usize,
    /// Text on one page of a result that `taskgate_task` shows.
    pub(crate) page_text: Size,
    /// Longest result of a tool with a workflow that is answered in whole, in any way of asking. A longer one is answered
    /// by its beginning and a handle, and read in pieces of this size. 256 KiB are some 60,000 tokens, more than most
    /// models take in at once. Results of tools without a workflow pass whole.
    pub(crate) result_inline: Size,
    /// After how long a request that is still held gets an event stream instead of silence.
    pub(crate) stream_after: Span,
    /// How often an open stream shows that it lives. Proxies close silent ones after 30 to 60 s.
    pub(crate) keep_alive: Span,
    /// How long a request other than a tool call is waited for at a server.
    pub(crate) request_time: Span,
    /// How long a person is waited for when a server asks something outside a task.
    pub(crate) ask_time: Span,
    /// How long calls under way are waited for at a stop.
    pub(crate) drain: Span,

    /// Starting a server or connecting to it, and opening a session: one try.
    pub(crate) server_open: Span,
    /// A TCP and TLS connection to a server.
    pub(crate) server_connect: Span,
    /// A request that a server answers at once: a status read, a listing, a cancellation.
    pub(crate) server_read: Span,
    /// The answer to `server/discover` over stdio, before the legacy era is tried.
    pub(crate) server_probe: Span,
    /// Sessions with one server at one time.
    pub(crate) server_sessions: usize,
    /// A session with a server that nobody used for this long, and that watches no task, is closed.
    pub(crate) server_idle: Span,
    /// How long a server process has to end after its stdin closed, and again after SIGTERM.
    pub(crate) server_grace: Span,
    /// Wait before a server that failed twice in a row is started again. It doubles from here.
    pub(crate) restart_first: Span,
    /// Longest such wait.
    pub(crate) restart_max: Span,
    /// A server that ran for this long is sound: the wait begins anew.
    pub(crate) restart_calm: Span,
}

fn span(duration: std::time::Duration) -> Span {
    Span(Millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

impl Default for RawLimits {
    /// The crates' own first values, so that there is one place for each.
    fn default() -> RawLimits {
        let front = taskgate_gateway::config::Limits::default();
        let engine = taskgate_engine::limits::Limits::default();
        let back = ServerConfig::new("", Transport::Http { url: String::new(), headers: Vec::new() });
        let Restart { first, max, calm } = back.restart;
        RawLimits {
            sync_budget: Span(front.sync_budget),
            task_after: Span(front.task_after),
            ttl: Span(engine.ttl),
            ttl_max: Span(engine.ttl_max),
            ttl_max_anonymous: Span(engine.ttl_max_shared),
            linger: Span(engine.linger),
            deadline: Span(engine.deadline),
            deadline_anonymous: Span(engine.deadline_shared),
            start_by: Span(engine.start_by),
            cancel_grace: Span(engine.cancel_grace),
            poll_floor: Span(engine.rhythm.floor),
            poll_ceiling: Span(engine.rhythm.ceiling),
            create_time: Span(engine.create.time),
            create_attempts: engine.create.attempts,
            status_read_time: Span(engine.status_read.time),
            status_read_attempts: engine.status_read.attempts,
            result_time: Span(engine.result.time),
            result_attempts: engine.result.attempts,
            reconcile_time: Span(engine.reconcile.time),
            reconcile_attempts: engine.reconcile.attempts,
            lookup_answer: Span(engine.lookups.answer),
            lookup_ceiling: Span(engine.lookups.pause_max),
            lookups: engine.lookups.workflow_max,
            lookups_system: engine.lookups.system_max,
            webhook_time: Span(engine.notices.budget.time),
            webhook_attempts: engine.notices.budget.attempts,
            webhook_answer: Span(engine.notices.answer),
            webhooks: engine.notices.workflow_max,
            evidence: Span(engine.evidence),
            live_tasks: engine.live_max,
            live_tasks_anonymous: engine.live_max_shared,
            running: engine.running_max,
            queue: engine.queue_max,
            finished_cached: engine.finished_cached,
            message_from_client: Size(front.message_bytes_max),
            message_from_server: Size(back.message_bytes_max),
            connections: front.connections_max,
            sessions: front.sessions_max,
            session_idle: Span(front.session_idle),
            requests: front.requests_max,
            streams: front.streams_max,
            listens: front.listens_max,
            filter: front.filter_max,
            blocked_results: front.blocked_results_max,
            page_tasks: front.page_tasks,
            page_text: Size(front.page_bytes),
            result_inline: Size(front.result_inline),
            stream_after: Span(front.stream_after),
            keep_alive: Span(front.keep_alive),
            request_time: Span(front.request_time),
            ask_time: Span(front.ask_time),
            drain: Span(front.drain),
            server_open: span(back.open_timeout),
            server_connect: span(back.connect_timeout),
            server_read: span(back.read_timeout),
            server_probe: span(back.probe_timeout),
            server_sessions: back.sessions_max,
            server_idle: span(back.idle),
            server_grace: span(back.grace),
            restart_first: span(first),
            restart_max: span(max),
            restart_calm: span(calm),
        }
    }
}
