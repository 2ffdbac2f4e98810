// What tabq must do with window functions. Every query runs in a process of its own.

import assert from 'node:assert/strict';

import { headings, output, refused, rows, tabq, table } from './program.mjs';

export const tests = [];
const test = (name, body) => tests.push([name, body]);
const same = (query, expected) => assert.deepEqual(rows(query), expected);

table('pay.csv', `id,team,name,day,points
1,red,Ana,2024-03-01,30
2,blue,Bob,2024-03-01,20
3,red,Cy,2024-03-02,10
4,red,Di,2024-03-03,30
5,blue,Ed,2024-03-04,
6,,Flo,2024-03-05,20
7,blue,Gus,2024-03-05,50
8,,Hal,2024-03-07,5
`);
table('odd.csv', 'over,partition,rank,lag\n1,2,3,4\n5,6,7,8\n');
table('teams.json', '[{"team":"red","city":"Rome"},{"team":"blue","city":"Bonn"},{"team":"green","city":"Graz"}]');

// Ranking.

test('row_number counts in a partition and leaves the rows in their order', () => {
  same('select id, row_number() over (partition by team order by points desc nulls last, id) from pay',
    [[1, 1], [2, 2], [3, 3], [4, 2], [5, 3], [6, 1], [7, 1], [8, 2]]);
});

test('row_number takes peers as they come', () => {
  same('select id, row_number() over (order by points) n from pay order by n',
    [[8, 1], [3, 2], [2, 3], [6, 4], [1, 5], [4, 6], [7, 7], [5, 8]]);
  same('select id, row_number() over () from (select * from pay order by id desc) p limit 3', [[8, 1], [7, 2], [6, 3]]);
});

test('rank leaves gaps after peers and dense_rank does not', () => {
  same('select id, rank() over (order by points desc nulls last) r, dense_rank() over (order by points desc nulls last) d from pay order by r, id',
    [[7, 1, 1], [1, 2, 2], [4, 2, 2], [2, 4, 3], [6, 4, 3], [3, 6, 4], [8, 7, 5], [5, 8, 6]]);
});

test('without ORDER BY all rows are peers', () => {
  same('select rank() over (partition by team), dense_rank() over (), last_value(id) over (partition by team) from pay where id < 4',
    [[1, 1, 3], [1, 1, 2], [1, 1, 3]]);
});

test('nulls form a partition of their own', () => {
  same('select id, count(*) over (partition by team) from pay', [[1, 3], [2, 3], [3, 3], [4, 3], [5, 3], [6, 2], [7, 3], [8, 2]]);
});

test('nulls in the order of a window go where they go in a query', () => {
  const ids = (order) => rows(`select id, row_number() over (order by points ${order}, id) n from pay where team = 'blue' order by n`).map(([id]) => id);
  assert.deepEqual([ids(''), ids('desc'), ids('desc nulls last'), ids('nulls first')],
    [[2, 7, 5], [5, 7, 2], [7, 2, 5], [5, 2, 7]]);
});

test('ntile deals out the larger tiles first', () => {
  same('select id, ntile(3) over (order by id) from pay', [[1, 1], [2, 1], [3, 1], [4, 2], [5, 2], [6, 2], [7, 3], [8, 3]]);
  same('select ntile(5) over (order by id) from pay where id < 4', [[1], [2], [3]]);
});

// Neighbours.

test('lag and lead look at neighbours in the partition', () => {
  same('select id, lag(id) over (partition by team order by id), lead(points) over (partition by team order by id) from pay',
    [[1, null, 10], [2, null, null], [3, 1, 30], [4, 3, null], [5, 2, 50], [6, null, 5], [7, 5, null], [8, 6, null]]);
});

test('lag and lead with a distance and a value for where there is none', () => {
  same('select lag(name, 2, team) over (order by id), lead(id, 3, -id) over (order by id), lag(id, 0) over (order by id) from pay where team is not null',
    [['red', 4, 1], ['blue', 5, 2], ['Ana', 7, 3], ['Bob', -4, 4], ['Cy', -5, 5], ['Di', -7, 7]]);
});

test('the value for where there is none does not stand in for a null', () => {
  same('select id, lag(points, 1, 0) over (order by id) from pay where id in (5, 6)', [[5, 0], [6, null]]);
});

test('the distance may differ from row to row', () => {
  same('select lag(id, id - 1) over (order by id), lag(id, 2 * id, 0) over (order by id) from pay where id < 4', [[1, 0], [1, 0], [1, 0]]);
});

// Frames.

test('a running sum takes in all peers of the row', () => {
  same('select id, sum(points) over (order by points) from pay where points is not null',
    [[1, 115], [2, 55], [3, 15], [4, 115], [6, 55], [7, 165], [8, 5]]);
});

test('a running count takes in all peers of the row', () => {
  same('select id, count(*) over (order by day) from pay', [[1, 2], [2, 2], [3, 3], [4, 4], [5, 5], [6, 7], [7, 7], [8, 8]]);
});

test('running aggregates leave nulls out', () => {
  same("select id, count(*) over (order by id), count(points) over (order by id), avg(points) over (order by id), max(points) over (order by id) from pay where team = 'blue'",
    [[2, 1, 1, 20, 20], [5, 2, 1, 20, 20], [7, 3, 2, 35, 50]]);
});

test('an aggregate without ORDER BY is that of the partition', () => {
  same("select id, sum(points) over (partition by team), string_agg(name, '+') over (partition by team), median(points) over () from pay where id in (1, 2, 3, 7)",
    [[1, 40, 'Ana+Cy', 25], [2, 70, 'Bob+Gus', 25], [3, 40, 'Ana+Cy', 25], [7, 70, 'Bob+Gus', 25]]);
});

test('a running text is in the order of the window', () => {
  same("select id, string_agg(name, ',') over (order by day desc, id) from pay where id < 5",
    [[1, 'Di,Cy,Ana'], [2, 'Di,Cy,Ana,Bob'], [3, 'Di,Cy'], [4, 'Di']]);
});

test('first_value and last_value are of the frame', () => {
  same('select id, first_value(id) over (partition by team order by day), last_value(id) over (order by day) from pay',
    [[1, 1, 2], [2, 2, 2], [3, 1, 3], [4, 1, 4], [5, 2, 5], [6, 6, 7], [7, 2, 7], [8, 6, 8]]);
});

// The place in the query.

test('WHERE goes first, LIMIT last', () => {
  same("select id, row_number() over (order by id desc) n, count(*) over () from pay where team = 'red' order by n limit 2 offset 1",
    [[3, 2, 3], [1, 3, 3]]);
});

test('DISTINCT comes after window functions', () => {
  same('select distinct team, count(*) over (partition by team) from pay order by team', [['blue', 3], ['red', 3], [null, 2]]);
  assert.equal(rows('select distinct team, row_number() over (order by id) from pay').length, 8);
});

test('a query may be sorted by a window function that it does not select', () => {
  same('select id from pay order by rank() over (partition by team order by points desc nulls last), id desc limit 4', [[7], [6], [4], [1]]);
});

test('a name from SELECT may stand for a window function in ORDER BY', () => {
  same('select id, lead(id) over (order by id) as next from pay where id < 4 order by next desc nulls last', [[2, 3], [1, 2], [3, null]]);
});

test('window functions are parts of expressions', () => {
  same("select id, points - lag(points, 1, points) over (order by id), case when rank() over (order by points desc) = 1 then 'top' else 'no' end, coalesce(lag(id) over (order by id), 0) + 1 from pay where id < 4",
    [[1, 0, 'top', 1], [2, -10, 'no', 2], [3, -10, 'no', 3]]);
});

test('arguments, partitions and orders may be expressions', () => {
  same('select id, sum(points * 2) over (partition by id % 2 order by -id) from pay where id < 5', [[1, 80], [2, 100], [3, 20], [4, 60]]);
});

test('a number in the order of a window is no position', () => {
  same('select id, rank() over (order by 1) from pay where id < 4', [[1, 1], [2, 1], [3, 1]]);
});

test('names from SELECT are unknown inside OVER', () => {
  refused('select id as thing, rank() over (order by thing) from pay', /thing/);
});

// Groups.

test('groups are ranked by their aggregates', () => {
  same('select team, sum(points), rank() over (order by sum(points) desc) from pay group by team order by team',
    [['blue', 70, 1], ['red', 70, 1], [null, 25, 3]]);
});

test('aggregates of aggregates', () => {
  same('select team, count(*), sum(count(*)) over (), sum(sum(points)) over (order by team) from pay group by team order by team',
    [['blue', 3, 8, 70], ['red', 3, 8, 140], [null, 2, 8, 165]]);
});

test('HAVING goes before window functions', () => {
  same('select day, count(*) over (), row_number() over (order by day) from pay group by day having count(*) > 1 order by day',
    [['2024-03-01', 2, 1], ['2024-03-05', 2, 2]]);
});

test('in a query with groups other columns are refused inside window functions', () => {
  refused('select team, rank() over (order by points) from pay group by team', /points.* must be in GROUP BY/);
  refused('select count(*), lag(id) over (order by team) from pay group by team', /id.* must be in GROUP BY/);
});

test('an aggregate with OVER makes no groups, and is not the one without', () => {
  same('select id, sum(points) over () from pay where id < 3', [[1, 50], [2, 50]]);
  same('select team, sum(count(*)) over (partition by team), count(*) over (), count(*) from pay where team is not null group by team order by 1',
    [['blue', 3, 2, 3], ['red', 3, 2, 3]]);
});

// With the rest of the language.

test('over joins, in queries inside queries, WITH and UNION', () => {
  same('select city, id, row_number() over (partition by city order by id desc) n from teams left join pay on pay.team = teams.team order by city, n limit 4',
    [['Bonn', 7, 1], ['Bonn', 5, 2], ['Bonn', 2, 3], ['Graz', null, 1]]);
  same('select team, id from (select team, id, rank() over (partition by team order by points desc nulls last) r from pay) x where r = 1 order by id',
    [['red', 1], ['red', 4], [null, 6], ['blue', 7]]);
  same('with n as (select id, ntile(2) over (order by id) half from pay) select half, max(id) from n group by half union all select 3, count(*) over () from teams order by 1, 2',
    [[1, 4], [2, 8], [3, 3], [3, 3], [3, 3]]);
});

test('no rows are no error', () => {
  same('select rank() over (order by id), sum(id) over () from pay where id > 99', []);
});

test('a star beside window functions', () => {
  same('select *, row_number() over (order by city desc) from teams', [['red', 'Rome', 1], ['blue', 'Bonn', 3], ['green', 'Graz', 2]]);
});

// Refusals.

test('window functions are refused where they are not allowed', () => {
  refused('select id from pay where rank() over (order by id) = 1', /not allowed in WHERE/);
  refused('select count(*) from pay group by rank() over (order by id)', /not allowed in GROUP BY/);
  refused('select team from pay group by team having rank() over (order by team) = 1', /not allowed in HAVING/);
  refused('select 1 from pay join teams on row_number() over () = 1', /not allowed in ON/);
});

test('window functions are refused inside others and inside aggregates', () => {
  refused('select sum(rank() over (order by id)) over () from pay');
  refused('select rank() over (order by lag(id) over (order by id)) from pay');
  refused('select sum(rank() over (order by id)) from pay');
});

test('calls that make no sense are refused', () => {
  refused('select rank() from pay', /rank/);
  refused('select upper(name) over () from pay', /upper/);
  refused('select count(distinct team) over () from pay', /count/i);
  refused('select lag() over (order by id) from pay', /lag/);
  refused('select row_number(1) over () from pay', /row_number/);
  refused('select ntile(0) over () from pay', /ntile/);
  refused('select lag(id, -1) over (order by id) from pay', /lag/);
  refused('select lead(id, 0.5) over (order by id) from pay', /lead/);
});

test('an error shows its place', () => {
  const { stderr } = tabq('select id from pay where rank() over () = 1');
  assert.match(stderr, /\n {2}select id from pay where rank\(\) over \(\) = 1\n {27}\^/);
});

// What else knows them.

test('fmt writes window functions', () => {
  assert.equal(output('fmt', 'select RANK() over(partition by a,b order by c desc, d nulls first), sum( x ) over () s from t'),
    'SELECT rank() OVER (PARTITION BY a, b ORDER BY c DESC, d NULLS FIRST), sum(x) OVER () AS s\nFROM t\n');
});

test('a column without a name has its expression as heading', () => {
  assert.deepEqual(headings('select id, Lag(id,2) over (order by id) from pay'), ['id', 'lag(id, 2) OVER (ORDER BY id)']);
});

test('explain shows one step after the groups', () => {
  const steps = output('explain', 'select team, rank() over (order by sum(points)), count(*) over () from pay where id > 1 group by team having count(*) > 1 order by 2 limit 1')
    .trimEnd().split('\n').map((line) => line.trim());
  assert.deepEqual(steps.map((line) => line.split(' ')[0]), ['limit', 'sort', 'project', 'window', 'filter', 'group', 'filter', 'scan']);
  assert.equal(steps[3], 'window rank() OVER (ORDER BY sum(points)), count(*) OVER ()');
});

test('functions lists them', () => {
  assert.equal(output('functions').split('\n')[2], 'windows: dense_rank first_value lag last_value lead ntile rank row_number');
});

test('no word becomes reserved', () => {
  assert.deepEqual(headings('select count(*) over from odd'), ['over']);
  same('select rank, partition, over, lag from odd order by over desc', [[7, 6, 5, 8], [3, 2, 1, 4]]);
  same('select sum(over) over (partition by partition order by rank), count(*) over (order by partition) "over" from odd', [[1, 1], [5, 2]]);
  same('select over.rank from odd over where over.over = 1', [[3]]);
});

test('queries without window functions work as before', () => {
  same('select team, count(*), sum(points) from pay group by team having count(*) > 2 order by 3, 1', [['blue', 3, 70], ['red', 3, 70]]);
  same('select count(distinct team), max(day) from pay', [[2, '2024-03-07']]);
  refused('select id from pay where count(*) > 1', /count\(\) is not allowed in WHERE/);
  refused('select team, id from pay group by team', /'id' must be in GROUP BY/);
});
