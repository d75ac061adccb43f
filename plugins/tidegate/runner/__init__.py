"""Work that is done again and again in one long-lived process: when it is due, what it is, and how it stops.

For installations without Airflow. Nothing here knows a server.
"""
