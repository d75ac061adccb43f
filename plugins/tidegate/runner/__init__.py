"""Work that is done again and again in one process that stays: when it is due, what it is, and how it stops.

For installations without Airflow. What a flush or a publication does comes from the steps; nothing here knows a server.
"""
