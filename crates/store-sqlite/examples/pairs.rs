//! How many pairs of create and end the store makes durable in a second, beside a bare writer with group commit.
//!
//! ```text
//! cargo run --release -p taskgate-store-sqlite --example pairs -- [SECONDS [FOLDER]]
//! ```
//!
//! A pair is two durable commits, one after the other, by each of `c` clients (notes 2.11). *Bare* is the same
//! loop over one table without index: 300 bytes in, 500 bytes more. One line for each measurement:
//! `store c pairs_per_s create_p50_ms create_p99_ms writer_cpu_us`, the last for each command; then the ratios.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for people at a terminal")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hdrhistogram::Histogram;
use rusqlite::Connection;
use taskgate_core::id::{OperationId, TaskId};
use taskgate_core::task::{self, Ending};
use taskgate_store::conformance::sample::{self, Told};
use taskgate_store::record::Record;
use taskgate_store::{Join, Store};
use taskgate_store_sqlite::SqliteStore;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

const WARM_UP: Duration = Duration::from_millis(800);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(3.0, |text| text.parse().expect("seconds are a number"));
    let folder = match arguments.next() {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.unwrap();
    println!("store     c  pairs/s  p50 ms  p99 ms  writer µs");
    for clients in [1, 16, 64] {
        let mut rates = vec![];
        let path = |name| folder.path().join(format!("{name}-{clients}.db"));
        let bare = Arc::new(Bare::open(&path("bare")));
        rates.push(measure("bare", "bare-writer", bare, clients, seconds).await);
        let store = Arc::new(Whole(SqliteStore::open(&path("taskgate")).unwrap()));
        rates.push(measure("taskgate", "taskgate-writer", store, clients, seconds).await);
        println!("ratio    {clients:2}  {:.2}", rates[1] / rates[0]);
    }
}

/// What is measured.
#[async_trait]
trait Pairs: Send + Sync + 'static {
    type Open: Send;
    async fn create(&self, number: u64) -> Self::Open;
    async fn end(&self, open: Self::Open);
}

async fn measure<P: Pairs>(name: &str, thread: &str, pairs: Arc<P>, clients: usize, seconds: f64) -> f64 {
    let numbers = Arc::new(AtomicU64::new(0));
    let is_measured = Arc::new(AtomicBool::new(false));
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (pairs, numbers) = (Arc::clone(&pairs), Arc::clone(&numbers));
            let (is_measured, is_over) = (Arc::clone(&is_measured), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut times = Histogram::<u64>::new_with_max(60_000_000, 3).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let open = pairs.create(numbers.fetch_add(1, Ordering::Relaxed)).await;
                    let took = begun.elapsed();
                    pairs.end(open).await;
                    if is_measured.load(Ordering::Relaxed) {
                        times.saturating_record(u64::try_from(took.as_micros()).unwrap());
                    }
                }
                times
            })
        })
        .collect();
    tokio::time::sleep(WARM_UP).await;
    let (begun, cpu) = (Instant::now(), cpu_of(thread));
    is_measured.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    is_over.store(true, Ordering::Relaxed);
    let (elapsed, cpu) = (begun.elapsed(), cpu_of(thread) - cpu);
    let mut times = Histogram::<u64>::new_with_max(60_000_000, 3).unwrap();
    for task in tasks {
        times.add(task.await.unwrap()).unwrap();
    }
    let count = times.len() as f64;
    let rate = count / elapsed.as_secs_f64();
    let millis = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
    let cpu_us = cpu * 1e6 / (count * 2.0);
    println!("{name:8} {clients:2}  {rate:7.0}  {:6.2}  {:6.2}  {cpu_us:9.1}", millis(0.5), millis(0.99));
    rate
}

/// Seconds of processor time used by the thread of that name. Zero where the system does not tell.
fn cpu_of(name: &str) -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0.0 };
    let ticks = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        let (front, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<u64> =
            fields.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        front.ends_with(name).then(|| fields.iter().sum::<u64>())
    });
    ticks.sum::<u64>() as f64 / 100.0
}

/// The store, on its plain path: recorded as dispatched, then ended by a result.
struct Whole(SqliteStore);

#[async_trait]
impl Pairs for Whole {
    type Open = Record;

    async fn create(&self, number: u64) -> Record {
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut record = sample::record("x");
        record.id = TaskId::parse(&format!("{number:010x}{spread:016x}")).unwrap();
        record.operation_id = OperationId(format!("op{number:010x}{spread:016x}"));
        record.call.params = Bytes::from_static(&[b'p'; 300]);
        record.call.digest[..8].copy_from_slice(&spread.to_be_bytes());
        let (mut record, _) = sample::advance(&record, sample::CREATED, vec![sample::dispatch()]);
        record.version = 1;
        self.0.create(Arc::new(record.clone()), Join::Never).await.unwrap();
        record
    }

    async fn end(&self, open: Record) {
        let result = Bytes::from_static(&[b'r'; 500]);
        let heard = taskgate_core::operation::Command::Hear(taskgate_core::operation::Word::Success);
        let end = task::Command::End(Ending::Returned { result, is_error: false });
        let told = vec![Told::Operation(heard), Told::Task(end)];
        let (record, changes) = sample::advance(&open, sample::CREATED, told);
        self.0.append(Arc::new(record), changes).await.unwrap();
    }
}

/// Nothing but group commit.
struct Bare(mpsc::Sender<(Write, oneshot::Sender<()>)>);

enum Write {
    Insert(u64),
    Update(u64),
}

impl Bare {
    fn open(path: &Path) -> Bare {
        let database = Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
        database.pragma_update(None, "synchronous", "full").unwrap();
        database
            .execute_batch("CREATE TABLE bare (id INTEGER PRIMARY KEY, request BLOB, result BLOB)")
            .unwrap();
        let (sender, mut queue) = mpsc::channel::<(Write, oneshot::Sender<()>)>(1024);
        let write = move || {
            while let Some(first) = queue.blocking_recv() {
                let mut batch = vec![first];
                while batch.len() <= 256
                    && let Ok(more) = queue.try_recv()
                {
                    batch.push(more);
                }
                let execute = |sql| database.prepare_cached(sql).unwrap().execute([]).unwrap();
                execute("BEGIN IMMEDIATE");
                for (write, _) in &batch {
                    let changed = match write {
                        Write::Insert(id) => database
                            .prepare_cached("INSERT INTO bare (id, request) VALUES (?1, ?2)")
                            .unwrap()
                            .execute((*id as i64, [b'p'; 300].as_slice())),
                        Write::Update(id) => database
                            .prepare_cached("UPDATE bare SET result = ?2 WHERE id = ?1")
                            .unwrap()
                            .execute((*id as i64, [b'r'; 500].as_slice())),
                    };
                    assert_eq!(changed, Ok(1));
                }
                execute("COMMIT");
                batch.into_iter().for_each(|(_, reply)| reply.send(()).unwrap());
            }
        };
        std::thread::Builder::new().name("bare-writer".into()).spawn(write).unwrap();
        Bare(sender)
    }

    async fn write(&self, write: Write) {
        let (reply, answer) = oneshot::channel();
        self.0.send((write, reply)).await.unwrap_or_else(|_| panic!("the writer is there"));
        answer.await.unwrap();
    }
}

#[async_trait]
impl Pairs for Bare {
    type Open = u64;

    async fn create(&self, number: u64) -> u64 {
        self.write(Write::Insert(number)).await;
        number
    }

    async fn end(&self, open: u64) {
        self.write(Write::Update(open)).await;
    }
}
