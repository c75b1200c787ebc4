//! `[limits]` handed on to the crates that keep them.

use taskgate_client::config::{Restart, ServerConfig};
use taskgate_gateway::config::Limits;

use super::raw::RawLimits;
use super::units::Span;

impl RawLimits {
    /// What the front keeps to.
    pub(crate) fn front(&self) -> Limits {
        Limits {
            sync_budget: self.sync_budget.0,
            task_after: self.task_after.0,
            message_bytes_max: self.message_from_client.0,
            sessions_max: self.sessions,
            session_idle: self.session_idle.0,
            listens_max: self.listens,
            blocked_results_max: self.blocked_results,
            streams_max: self.streams,
            filter_max: self.filter,
            requests_max: self.requests,
            connections_max: self.connections,
            page_tasks: self.page_tasks,
            page_bytes: self.page_text.0,
            result_inline: self.result_inline.0,
            stream_after: self.stream_after.0,
            keep_alive: self.keep_alive.0,
            request_time: self.request_time.0,
            ask_time: self.ask_time.0,
            drain: self.drain.0,
        }
    }

    /// What is kept to with one server.
    pub(crate) fn bound(&self, server: &mut ServerConfig) {
        server.open_timeout = self.server_open.duration();
        server.connect_timeout = self.server_connect.duration();
        server.read_timeout = self.server_read.duration();
        server.probe_timeout = self.server_probe.duration();
        server.message_bytes_max = self.message_from_server.0;
        server.sessions_max = self.server_sessions;
        server.idle = self.server_idle.duration();
        server.grace = self.server_grace.duration();
        server.restart = Restart {
            first: self.restart_first.duration().min(self.restart_max.duration()),
            max: self.restart_max.duration(),
            calm: self.restart_calm.duration(),
        };
    }

    /// Counts that must not be 0.
    pub(crate) fn counts(&self) -> [(&'static str, usize); 24] {
        [
            ("create_attempts", self.create_attempts as usize),
            ("status_read_attempts", self.status_read_attempts as usize),
            ("result_attempts", self.result_attempts as usize),
            ("reconcile_attempts", self.reconcile_attempts as usize),
            ("lookups", self.lookups),
            ("lookups_system", self.lookups_system),
            ("webhook_attempts", self.webhook_attempts as usize),
            ("webhooks", self.webhooks),
            ("live_tasks", self.live_tasks),
            ("live_tasks_anonymous", self.live_tasks_anonymous),
            ("running", self.running),
            ("message_from_client", self.message_from_client.0),
            ("message_from_server", self.message_from_server.0),
            ("connections", self.connections),
            ("sessions", self.sessions),
            ("requests", self.requests),
            ("streams", self.streams),
            ("listens", self.listens),
            ("filter", self.filter),
            ("blocked_results", self.blocked_results),
            ("page_tasks", self.page_tasks),
            ("page_text", self.page_text.0),
            ("server_sessions", self.server_sessions),
            ("queue", self.queue),
        ]
    }

    /// Spans that must not be 0.
    pub(crate) fn spans(&self) -> [(&'static str, Span); 6] {
        [
            ("create_time", self.create_time),
            ("status_read_time", self.status_read_time),
            ("result_time", self.result_time),
            ("reconcile_time", self.reconcile_time),
            ("webhook_time", self.webhook_time),
            ("deadline", self.deadline),
        ]
    }

    /// Spans after which something is done again, and which must not be next to nothing.
    pub(crate) fn rhythms(&self) -> [(&'static str, Span); 7] {
        [
            ("poll_floor", self.poll_floor),
            ("keep_alive", self.keep_alive),
            ("restart_first", self.restart_first),
            ("server_open", self.server_open),
            ("lookup_answer", self.lookup_answer),
            ("lookup_ceiling", self.lookup_ceiling),
            ("webhook_answer", self.webhook_answer),
        ]
    }
}
