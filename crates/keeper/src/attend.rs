//! One pipe, at the keeper's side.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use taskgate_core::id::{Principal, TaskId};
use taskgate_gateway::pipe;
use taskgate_gateway::{Incoming, Outgoing};
use taskgate_store::record::Frame as Stamp;
use taskgate_wire::json;
use taskgate_wire::message::{self, Message};
use taskgate_wire::text::SafeText;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::attachment::{self, Attachment};
use crate::frame::{self, Decoder, End, Frame, Kind};
use crate::keeper::{Keeper, Line, Presence};
use crate::servers::{Admitted, NotServed};

/// How long a pipe may take to say what it wants.
const ATTACH: Duration = Duration::from_secs(5);

/// Messages that wait in either direction; then whoever makes more of them waits too.
const WAITING_MAX: usize = 256;

/// Lines for stderr that wait for a pipe; the next ones are dropped.
const LINES_MAX: usize = 256;

/// How long the store may take to note that a result was fetched, before what follows is taken all the same.
const FETCHED: Duration = Duration::from_secs(2);

/// Messages in which a host's name is looked for.
const LOOK_FOR_NAME: u32 = 3;

/// Results that are with the pipe and not yet with its host.
type Delivering = Arc<Mutex<VecDeque<(u64, TaskId)>>>;

/// Serves an attachment from its first frame to its end.
pub(crate) async fn serve(keeper: &Arc<Keeper>, stream: UnixStream, rest: BytesMut) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let mut reader = Reader { read, decoder: Decoder::new(attachment::BYTES_MAX) };
    reader.decoder.extend(&rest);
    let mut writer = Writer { write, sequence: 0 };
    let first = timeout(ATTACH, reader.next()).await.map_err(|_| ErrorKind::TimedOut)??;
    let attachment: Attachment = match first {
        Some(Frame { kind: Kind::Attach, payload, .. }) => match serde_json::from_slice(&payload) {
            Ok(attachment) => attachment,
            // Its words could quote the environment.
            Err(_) => {
                let version = &keeper.parts.version;
                let words = format!(
                    "the keeper (version {version}) does not understand what this `taskgate run` asks for; `taskgate keeper restart` starts one that does"
                );
                return writer.frame(Kind::Refused, words.as_bytes()).await;
            }
        },
        Some(_) | None => return Err(ErrorKind::InvalidData.into()),
    };
    let (lines, lines_out) = mpsc::channel(LINES_MAX);
    let Admitted { key, number, presence } = match keeper.admit(&attachment, lines).await {
        Ok(admitted) => admitted,
        Err(NotServed::Leaving) => return Ok(()),
        Err(
            not_served @ (NotServed::NameTaken { .. }
            | NotServed::OtherWorkflows { .. }
            | NotServed::Workflows(_)),
        ) => {
            tracing::warn!(%not_served, "a host was not served");
            return writer.frame(Kind::Refused, not_served.to_string().as_bytes()).await;
        }
    };
    tracing::info!(server = %key.server, attachment = attachment.id.short(), host = attachment.host_pid, "a host has come");
    writer.frame(Kind::Ready, &[]).await?;
    let attached = pipe::Attached { server: key.server.clone(), principal: key.scope.principal() };
    let session = Session {
        keeper: keeper.clone(),
        number,
        stamp: attachment.id.0,
        principal: attached.principal.clone(),
        delivering: Delivering::default(),
    };
    // It holds the host's environment, which nobody needs any more.
    drop(attachment);
    session.run(attached, reader, writer, lines_out, presence).await
}

struct Session {
    keeper: Arc<Keeper>,
    number: u64,
    stamp: [u8; 16],
    principal: Principal,
    delivering: Delivering,
}

/// Why nothing more comes from a pipe.
enum Quiet {
    /// The host closed its end; answers may still be delivered.
    Closed,
    /// The pipe is gone.
    Gone,
    /// We are leaving.
    Leaving,
}

impl Session {
    async fn run(
        self,
        attached: pipe::Attached,
        reader: Reader,
        mut writer: Writer,
        mut lines: mpsc::Receiver<Line>,
        presence: Presence,
    ) -> io::Result<()> {
        let keeper = self.keeper.clone();
        let owed = keeper.delivering.token();
        let (incoming, messages) = mpsc::channel(WAITING_MAX);
        let (answers, mut outgoing) = mpsc::channel(WAITING_MAX);
        // The gateway is never told to shut down: what a client holds open would then be answered, and the host would
        // hear of it. Without a client it just ends, and the pipe asks the next keeper.
        let never = CancellationToken::new();
        let gateway = keeper.parts.gateway.clone();
        let serving =
            tokio::spawn(async move { gateway.serve_pipe(attached, messages, answers, never).await });
        let delivering = self.delivering.clone();
        let mut reading = tokio::spawn(self.read(reader, incoming));
        let mut quiet = None;
        let engine = keeper.parts.engine.clone();
        let delivered = loop {
            tokio::select! {
                biased;
                // Without a word: what was asked is asked of the next keeper, which can say what became of it.
                _ = engine.lost() => break Err(ErrorKind::ConnectionAborted.into()),
                answer = outgoing.recv() => match answer {
                    // It may be an error that the store made.
                    Some(_) if engine.is_lost() => break Err(ErrorKind::ConnectionAborted.into()),
                    Some(answer) => {
                        if let Err(error) = writer.answer(answer, &delivering).await {
                            break Err(error);
                        }
                    }
                    // The gateway is done with this client.
                    None => break Ok(()),
                },
                ended = &mut reading, if quiet.is_none() => {
                    let why = ended.unwrap_or(Quiet::Gone);
                    if matches!(why, Quiet::Gone) {
                        // Nobody is there to be answered.
                        break Err(ErrorKind::BrokenPipe.into());
                    }
                    quiet = Some(why);
                }
                Some(line) = lines.recv() => {
                    if let Err(error) = writer.line(line).await {
                        break Err(error);
                    }
                }
                () = keeper.hurry.cancelled() => {
                    quiet = Some(Quiet::Leaving);
                    break Ok(());
                }
            }
        };
        // Nobody reads any more, so the gateway ends: at once, or when what it was doing for this client is done.
        drop(outgoing);
        if !keeper.hurry.is_cancelled() && !engine.is_lost() {
            let served = serving.await;
            if quiet.is_none() && delivered.is_ok() && matches!(served, Ok(Ok(()))) {
                // It ended because nothing more comes, which is just being told.
                quiet = reading.await.ok();
            } else {
                reading.abort();
            }
        }
        drop(owed);
        delivered?;
        if matches!(quiet, Some(Quiet::Gone)) {
            return Ok(());
        }
        let word = match quiet {
            Some(Quiet::Closed) => {
                // A host that starts its server again as soon as this pipe has ended is to get a new process.
                presence.leave().await;
                End::Done.word()
            }
            Some(Quiet::Leaving) => {
                keeper.farewell.cancelled().await;
                match keeper.reason().end() {
                    Some(end) => end.word(),
                    None => return Ok(()),
                }
            }
            // The gateway ended by itself: its server is gone from the list.
            Some(Quiet::Gone) | None => End::GaveWay.word(),
        };
        writer.frame(Kind::End, word.as_bytes()).await
    }

    /// Takes what comes from the pipe until nothing more does.
    async fn read(self, mut reader: Reader, incoming: mpsc::Sender<Incoming>) -> Quiet {
        let mut look = LOOK_FOR_NAME;
        let mut fetching = JoinSet::new();
        let mut age = None;
        loop {
            let frame = tokio::select! {
                frame = reader.next() => Some(frame),
                () = self.keeper.leaving.cancelled() => None,
            };
            let Some(frame) = frame else {
                drop(incoming);
                self.confirm_last(reader, fetching);
                return Quiet::Leaving;
            };
            let Frame { kind, sequence, payload } = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => return Quiet::Gone,
                Err(error) => {
                    tracing::warn!(%error, "a pipe sent what is no frame");
                    return Quiet::Gone;
                }
            };
            match kind {
                Kind::Message => {
                    if look > 0 {
                        look = if self.find_name(&payload) { 0 } else { look - 1 };
                    }
                    // A call that follows a result is a new one: the store must know first that the result was fetched.
                    let noted = async { while fetching.join_next().await.is_some() {} };
                    let _ = timeout(FETCHED, noted).await;
                    let frame = Some(Stamp { attachment: self.stamp, sequence });
                    let age = age.take().filter(|(of, _)| *of == sequence);
                    let is_again = age.is_some();
                    let since = began(Instant::now(), age);
                    if incoming.send(Incoming { message: payload, frame, since, is_again }).await.is_err() {
                        return Quiet::Closed;
                    }
                }
                Kind::Age => age = Some((sequence, payload)),
                Kind::Ack => {
                    for task in take_delivered(&self.delivering, sequence) {
                        let (gateway, principal) =
                            (self.keeper.parts.gateway.clone(), self.principal.clone());
                        fetching.spawn(async move { gateway.fetched(&principal, &task).await });
                    }
                }
                Kind::Close => {
                    drop(incoming);
                    self.confirm_last(reader, fetching);
                    return Quiet::Closed;
                }
                // What only a keeper says, and what was said already.
                Kind::Attach
                | Kind::Result
                | Kind::Ready
                | Kind::Stderr
                | Kind::Notice
                | Kind::Refused
                | Kind::End => {}
            }
        }
    }

    /// The last answers go out while nothing more comes in but their confirmations, until the pipe is gone.
    fn confirm_last(self, mut reader: Reader, mut fetching: JoinSet<()>) {
        let connections = self.keeper.connections.clone();
        connections.spawn(async move {
            fetching.detach_all();
            while let Ok(Some(frame)) = reader.next().await {
                if frame.kind == Kind::Ack {
                    for task in take_delivered(&self.delivering, frame.sequence) {
                        self.keeper.parts.gateway.fetched(&self.principal, &task).await;
                    }
                }
            }
            self.keeper.changed.notify_one();
        });
    }

    /// What the host calls itself stands in its `initialize`, or in the metadata of every modern request.
    fn find_name(&self, text: &Bytes) -> bool {
        let Ok(Message::Request(request)) = message::parse(text.clone()) else { return false };
        let info = request
            .param("clientInfo")
            .or_else(|| json::at(request.param("_meta")?, &["io.modelcontextprotocol/clientInfo"]));
        let name = info.and_then(|info| json::at(info, &["name"])).and_then(json::string);
        match name {
            Some(name) => {
                self.keeper.name_client(self.number, SafeText::new(&name, 60).as_str().to_owned());
                true
            }
            None => false,
        }
    }
}

/// When the host sent a message, of which the pipe may have said how old it is.
fn began(now: Instant, age: Option<(u64, Bytes)>) -> Instant {
    let millis = age.and_then(|(_, age)| Some(u64::from_le_bytes(*age.first_chunk()?)));
    millis.and_then(|millis| now.checked_sub(Duration::from_millis(millis))).unwrap_or(now)
}

fn take_delivered(delivering: &Delivering, sequence: u64) -> Vec<TaskId> {
    let mut delivering = delivering.lock();
    let count = delivering.iter().take_while(|(number, _)| *number <= sequence).count();
    delivering.drain(..count).map(|(_, task)| task).collect()
}

struct Reader {
    read: OwnedReadHalf,
    decoder: Decoder,
}

impl Reader {
    /// The next frame; `None` at the end. It may be dropped while it waits: nothing is lost.
    async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.decoder.take()? {
                return Ok(Some(frame));
            }
            if self.read.read_buf(self.decoder.space()).await? == 0 {
                return Ok(None);
            }
        }
    }
}

struct Writer {
    write: OwnedWriteHalf,
    sequence: u64,
}

impl Writer {
    /// Writes a frame, in one call where the system takes it.
    async fn frame(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.sequence += 1;
        let header = frame::header(kind, self.sequence, payload.len())?;
        self.write.write_all_buf(&mut Buf::chain(&header[..], payload)).await
    }

    async fn answer(&mut self, answer: Outgoing, delivering: &Delivering) -> io::Result<()> {
        let Outgoing { message, delivers } = answer;
        match delivers {
            Some(task) => {
                // Before it leaves: the confirmation may be here before this task runs again.
                delivering.lock().push_back((self.sequence + 1, task));
                self.frame(Kind::Result, &message).await
            }
            None => self.frame(Kind::Message, &message).await,
        }
    }

    async fn line(&mut self, line: Line) -> io::Result<()> {
        match line {
            Line::Server(text) => self.frame(Kind::Stderr, text.as_bytes()).await,
            Line::Notice(text) => self.frame(Kind::Notice, text.as_bytes()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_6_a_message_began_when_the_host_sent_it() {
        let now = Instant::now();
        let aged = |millis: &[u8]| began(now, Some((1, Bytes::copy_from_slice(millis))));
        assert_eq!(aged(&25_000_u64.to_le_bytes()), now - Duration::from_secs(25));
        assert_eq!(began(now, None), now);
        // An age that cannot be read is as good as none.
        assert_eq!(aged(b"short"), now);
    }
}
