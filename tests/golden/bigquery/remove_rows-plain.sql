-- The source table was emptied, and so is this one; what its later records make is written by the next statement.
DELETE FROM `my-project`.`shop`.`orders` AS t
WHERE TRUE
