-- q3, counted
SELECT COUNT(*) AS n FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')

-- q3, by state
SELECT p.state, COUNT(*) AS n, AVG(a.reserve) AS reserve FROM auction a JOIN person p ON a.seller = p.id WHERE a.category = 10 GROUP BY p.state

-- q4, of all bids in time
SELECT a.category, COUNT(*) AS n, AVG(b.price) AS price FROM bid b JOIN auction a ON b.auction = a.id WHERE b.at BETWEEN a.at AND a.expires GROUP BY a.category

-- q4, unchanged (MAX)
SELECT category, AVG(final) AS price FROM (SELECT a.id, a.category, MAX(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction WHERE b.at BETWEEN a.at AND a.expires GROUP BY a.id, a.category) GROUP BY category

-- q5, top ten
SELECT auction, COUNT(*) AS n FROM bid GROUP BY auction ORDER BY n DESC LIMIT 10

-- q5, of one category
SELECT b.auction, COUNT(*) AS n FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10 GROUP BY b.auction ORDER BY n DESC LIMIT 10

-- q6, of all auctions (MAX)
SELECT seller, AVG(final) AS price FROM (SELECT a.id, a.seller, MAX(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction GROUP BY a.id, a.seller) GROUP BY seller

-- q7, of the last day (MAX)
SELECT MAX(price) AS price FROM bid WHERE at >= TIMESTAMP_NTZ '2024-01-10 00:00:00'

-- q8, counted
SELECT COUNT(DISTINCT p.id) AS n FROM person p JOIN auction a ON p.id = a.seller

-- q8, on the same day
SELECT COUNT(*) AS n FROM person p JOIN auction a ON p.id = a.seller AND date_trunc('day', p.at) = date_trunc('day', a.at)

-- q15
SELECT CAST(at AS DATE) AS day, COUNT(*) AS n, COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(DISTINCT bidder) AS bidders, COUNT(DISTINCT auction) AS auctions FROM bid GROUP BY CAST(at AS DATE)

-- q16, first channels
SELECT channel, COUNT(*) AS n, COUNT(DISTINCT bidder) AS bidders FROM bid GROUP BY channel ORDER BY n DESC LIMIT 4

-- q17, top ten
SELECT auction, COUNT(*) AS n, AVG(price) AS mean, SUM(price) AS total FROM bid GROUP BY auction ORDER BY n DESC LIMIT 10

-- q20, added up
SELECT COUNT(*) AS n, SUM(b.price) AS price FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10

-- q20, distinct bidders
SELECT COUNT(DISTINCT b.bidder) AS n FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10

-- sales by the seller's state
SELECT p.state, COUNT(*) AS n, SUM(b.price) AS price FROM bid b JOIN auction a ON b.auction = a.id JOIN person p ON a.seller = p.id GROUP BY p.state

-- bids from the seller's state
SELECT COUNT(*) AS n FROM bid b JOIN auction a ON b.auction = a.id JOIN person s ON a.seller = s.id JOIN person t ON b.bidder = t.id WHERE s.state = 'OR' AND t.state = 'OR'

-- bids that reach the reserve
SELECT COUNT(*) AS n FROM bid b JOIN auction a ON b.auction = a.id WHERE b.price >= a.reserve

-- auctions without a bid
SELECT COUNT(*) AS n FROM auction a LEFT ANTI JOIN bid b ON a.id = b.auction

-- people who bid and sell
SELECT COUNT(*) AS n FROM (SELECT bidder FROM bid INTERSECT SELECT seller FROM auction)

-- q19 (rows)
SELECT auction, bidder, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid
